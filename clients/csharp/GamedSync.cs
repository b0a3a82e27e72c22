// Offline play for GamedClient.cs: a game saves to this device, and the device brings it up when it can.
//
// Copy it beside GamedClient.cs; C# 6, nothing beyond mscorlib, System and System.Core.
//
//     Sync sync = await Sync.OpenAsync(client);            // needs no network, and for the first saves no sign-in
//     sync.Start(OnChange);                                // in the background, until the Sync is closed
//     await sync.ReadyAsync();                             // until the server has answered, at most 5 seconds
//     Save save = await sync.ReadAsync("auto");            // null: never saved; NotKnown: this device was never online
//     await sync.WriteAsync("auto", bytes);                // on this device's disk when it ends
//     foreach (SyncConflict conflict in await sync.ConflictsAsync())      // both sides went on: the player chooses
//         await conflict.KeepMineAsync();                  // or KeepTheirsAsync(), or MergedAsync(bytes)
//
// A write stands on what the game last read or wrote, never on what merely arrived: progress that the player has not
// seen is not written over. Nothing is decided by a clock. The rules, step by step: docs/developers/offline.md.
//
// Every failure is a GamedError, or an IOException of this device's disk. Methods may be called from any thread and do
// their work on others, in the order in which they were called; one process at a time for a player's folder.

using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;

namespace Gamed
{
    /// <summary>The server's list has not come to this device yet: it may have a save of this slot.</summary>
    public class NotKnown : Unreachable
    {
        internal NotKnown()
            : base("not_known", "This device has not reached the server yet, so it does not know this save.")
        {
        }
    }

    /// <summary>The sides have changed since this conflict was shown, or it was settled: look at the conflicts again.
    /// </summary>
    public class ConflictOver : GamedError
    {
        internal ConflictOver() : base("conflict_over", "This conflict has changed since it was shown.")
        {
        }
    }

    // --- What is known of a slot: pure, every change makes a new record ----------------------------------------------

    /// <summary>Bytes on this device, in a file named by their hash.</summary>
    sealed class Local
    {
        internal string Sha256;
        internal long Size;
        internal string ContentType;
        internal IDictionary<string, object> Meta;

        /// <summary>RFC 3339, by some clock: to be shown to the player. Nothing is decided by it.</summary>
        internal string Modified;

        internal static Local Of(SaveInfo info)
        {
            return info == null ? null : new Local
            {
                Sha256 = info.Sha256, Size = info.Size, ContentType = info.ContentType, Meta = info.Meta,
                Modified = info.Modified,
            };
        }

        /// <summary>With the label as the server spells it.</summary>
        internal Local Labelled(SaveInfo info)
        {
            return new Local
            {
                Sha256 = Sha256, Size = Size, ContentType = info.ContentType, Meta = info.Meta, Modified = Modified,
            };
        }

        /// <summary>The same bytes under the same label; nothing equals nothing.</summary>
        internal static bool Same(Local one, Local other)
        {
            if (one == null || other == null)
                return one == other;
            return one.Sha256 == other.Sha256 && one.ContentType == other.ContentType
                && Json.Same(one.Meta, other.Meta);
        }

        internal static object ToJson(Local local)
        {
            return local == null ? null : new Dictionary<string, object>
            {
                { "sha256", local.Sha256 }, { "size", local.Size }, { "content_type", local.ContentType },
                { "meta", local.Meta }, { "modified", local.Modified },
            };
        }

        internal static Local FromJson(object value)
        {
            var members = (IDictionary<string, object>)value;
            return members == null ? null : new Local
            {
                Sha256 = Members.Of<string>(members, "sha256"),
                Size = Members.Of<long>(members, "size"),
                ContentType = Members.Of<string>(members, "content_type"),
                Meta = Members.Of<Dictionary<string, object>>(members, "meta"),
                Modified = Members.Of<string>(members, "modified"),
            };
        }
    }

    /// <summary>A write, or with Local null a delete, that was sent and may have arrived: nothing else goes out before
    /// it.</summary>
    sealed class Sent
    {
        internal Local Local;
        internal SaveInfo Base;

        internal static object ToJson(Sent sent)
        {
            return sent == null ? null : new Dictionary<string, object>
            {
                { "local", Local.ToJson(sent.Local) }, { "base", Record.Info(sent.Base) },
            };
        }

        internal static Sent FromJson(object value)
        {
            var members = (IDictionary<string, object>)value;
            return members == null ? null : new Sent
            {
                Local = Local.FromJson(members["local"]), Base = SaveInfo.Maybe(members["base"]),
            };
        }
    }

    /// <summary>What the server said when it refused. Reason: changed, deleted, or lost (it does not know this save).
    /// </summary>
    sealed class Dispute
    {
        internal string Reason;
        internal SaveInfo Base;
        internal SaveInfo Current;

        /// <summary>The refused bytes, as the server keeps them.</summary>
        internal SaveInfo Copy;

        internal static object ToJson(Dispute dispute)
        {
            return dispute == null ? null : new Dictionary<string, object>
            {
                { "reason", dispute.Reason }, { "base", Record.Info(dispute.Base) },
                { "current", Record.Info(dispute.Current) }, { "copy", Record.Info(dispute.Copy) },
            };
        }
    }

    /// <summary>A whole list while its pages come; after an interruption the next round goes on with it.</summary>
    sealed class WholeList
    {
        internal string Cursor;

        /// <summary>What is missing on all pages was deleted long ago.</summary>
        internal bool Expired;

        /// <summary>Null: deleted.</summary>
        internal readonly Dictionary<string, SaveInfo> Listed = new Dictionary<string, SaveInfo>();

        /// <summary>The slots whose base was compared with what is listed.</summary>
        internal readonly HashSet<string> Compared = new HashSet<string>();

        internal void Add(string cursor, IDictionary<string, SaveInfo> page)
        {
            Cursor = cursor;
            foreach (KeyValuePair<string, SaveInfo> entry in page)
            {
                Listed[entry.Key] = entry.Value;
                Compared.Remove(entry.Key);
            }
        }
    }

    sealed class Record
    {
        const long Format = 1;

        internal string Slot;

        /// <summary>The game's save; null if there is none or it was deleted.</summary>
        internal Local Local;

        /// <summary>The version that stands on: what the game last read, or the server last acknowledged.</summary>
        internal SaveInfo Base;

        /// <summary>The game went on from there.</summary>
        internal bool Dirty;

        internal Sent Sent;

        /// <summary>The server's save in its last answer.</summary>
        internal SaveInfo Remote;

        /// <summary>Where there is nothing: there was something.</summary>
        internal bool Deleted;

        internal Dispute Dispute;

        /// <summary>The save that was replaced last on this device.</summary>
        internal Local Dropped;

        /// <summary>A conflict's copy at the server that is not needed once its bytes are current.</summary>
        internal SaveInfo Spent;

        /// <summary>Bytes that gave way in a conflict before the server had them. Its Base is never current, so the
        /// server refuses the write and keeps the bytes as a conflict copy.</summary>
        internal Sent UnsentCopy;

        internal Record With(Action<Record> change)
        {
            var copy = (Record)MemberwiseClone();
            change(copy);
            return copy;
        }

        static string Tag(SaveInfo info)
        {
            return info == null ? null : info.Etag;
        }

        /// <summary>The server has something that the game has not seen, and the game has nothing to say against it.
        /// </summary>
        internal bool Newer
        {
            get
            {
                bool settled = !Dirty && Sent == null && Dispute == null;
                return settled && Tag(Remote) != Tag(Base) && (Remote != null || Deleted);
            }
        }

        /// <summary>By the game. What it has already is no change.</summary>
        internal Record Wrote(Local local)
        {
            if (Local.Same(Local, local))
                return this;
            Record record = With(r =>
            {
                r.Local = local;
                r.Dirty = true;
                r.Deleted = local == null;
                r.Dropped = local != null ? Dropped : Local;
            });
            return local != null && Dispute != null && Remote != null ? record.Heard(Remote) : record;
        }

        /// <summary>The game goes on from what is newer.</summary>
        internal Record Took()
        {
            Local local = Local.Of(Remote);
            return With(r =>
            {
                r.Local = local;
                r.Base = Remote;
                r.Dropped = local != null || Local == null ? Dropped : Local;
            });
        }

        /// <summary>The server lists this. The same bytes are never a conflict, whichever device wrote them.</summary>
        internal Record Heard(SaveInfo remote, bool deleted = false)
        {
            Record record = With(r =>
            {
                r.Remote = remote;
                r.Deleted = remote == null && deleted;
            });
            if (remote == null)
                return Local == null && Sent == null ? record.Settled(null) : record.Moved();
            if (Sent != null && Sent.Local != null && Sent.Local.Sha256 == remote.Sha256)
                return record.Acknowledged(remote, Local.Same(Sent.Local, Local.Of(remote)));
            if (Local != null && Local.Sha256 == remote.Sha256 && Sent == null)
                return record.Settled(remote);
            return record.Moved();
        }

        /// <summary>Both sides have the same bytes; another label is brought up still, or taken over if the game has
        /// none.</summary>
        Record Settled(SaveInfo remote)
        {
            return With(r =>
            {
                r.Base = remote;
                r.Dispute = null;
                if (!Dirty && remote != null)
                    r.Local = Local.Of(remote);
                else
                    r.Dirty = remote != null && !Local.Same(Local, Local.Of(remote));
            });
        }

        /// <summary>A conflict that is open shows what is there now.</summary>
        Record Moved()
        {
            if (Dispute == null || Tag(Dispute.Current) == Tag(Remote))
                return this;
            if (Remote != null && Tag(Remote) == Tag(Base))
                return With(r => r.Dispute = null);
            string reason = Remote != null ? "changed" : Deleted ? "deleted" : "lost";
            return With(r => r.Dispute = new Dispute
            {
                Reason = reason, Base = Dispute.Base, Current = Remote, Copy = Dispute.Copy,
            });
        }

        /// <summary>In a whole list. `known`: what this stands on is in the past that the server has now. Where it is
        /// not, the server has lost what it had acknowledged, and what the game has is news again.</summary>
        internal Record Relisted(bool known, bool deleted, bool listed)
        {
            Record record = known || Dirty || Local == null ? this : With(r => r.Dirty = true);
            return listed ? record : record.Heard(null, deleted);
        }

        /// <summary>In a whole list where this slot is missing because it was deleted long ago.</summary>
        internal Record Expired()
        {
            if (Local == null || Base == null || !(Dirty || Sent != null))
                return Heard(null, Base != null || Remote != null || Deleted);
            return With(r =>
            {
                r.Sent = null;
                r.Dispute = Dispute ?? new Dispute { Reason = "deleted", Base = Base };
            }).Heard(null, true);
        }

        /// <summary>Records a write that took place as `info`; the game may have saved again since.</summary>
        internal Record Acknowledged(SaveInfo info, bool exactly = true)
        {
            bool done = exactly && Local.Same(Local, Sent == null ? null : Sent.Local);
            return With(r =>
            {
                if (done && info != null && Local != null)
                    r.Local = Local.Labelled(info);
                r.Base = info;
                r.Dirty = !done;
                r.Sent = null;
            });
        }

        internal Record Written(SaveInfo info)
        {
            return Acknowledged(info).With(r =>
            {
                r.Remote = info;
                r.Deleted = false;
            });
        }

        internal Record Removed(SaveInfo current)
        {
            return Acknowledged(null).With(r =>
            {
                r.Remote = current;
                r.Deleted = current == null;
            });
        }

        /// <summary>It took place, and another device went on from it.</summary>
        internal Record Superseded(Conflict error)
        {
            return Acknowledged(error.Yours).With(r =>
            {
                r.Remote = error.Current;
                r.Deleted = error.Current == null;
            });
        }

        internal Record Disputed(Conflict error)
        {
            SaveInfo current = error.Current;
            bool deleted = error.Code == "deleted";
            return With(r =>
            {
                r.Sent = null;
                r.Dispute = new Dispute
                {
                    Reason = current != null ? "changed" : deleted ? "deleted" : "lost", Base = Base, Current = current,
                    Copy = error.Yours,
                };
            }).Heard(current, deleted);
        }

        SaveInfo Theirs
        {
            get { return Dispute == null ? null : Dispute.Current; }
        }

        /// <summary>Nothing of this device is pending or in dispute.</summary>
        internal bool Idle
        {
            get { return !Dirty && Sent == null && Dispute == null; }
        }

        /// <summary>Made before the sign-in: without a base, so that it never replaces another.</summary>
        internal Record Adopted(Local local)
        {
            return With(made =>
            {
                made.Local = local;
                made.Base = null;
                made.Dirty = true;
                made.Deleted = false;
                made.Dropped = Local ?? Dropped;
            });
        }

        internal Record KeptMine()
        {
            return With(r =>
            {
                r.Spent = Dispute == null ? null : Dispute.Copy;
                r.Base = Theirs;
                r.Dirty = true;
                r.Dispute = null;
            });
        }

        internal Record KeptTheirs()
        {
            return GaveWay().With(r =>
            {
                r.Local = Local.Of(Theirs);
                r.Base = Theirs;
                r.Dirty = false;
                r.Deleted = Dispute != null && Dispute.Reason == "deleted";
                r.Dispute = null;
            });
        }

        internal Record Merged(Local local)
        {
            Record record = Local != null && Local.Sha256 == local.Sha256 ? this : GaveWay();
            return record.With(r =>
            {
                r.Local = local;
                r.Base = Theirs;
                r.Dirty = true;
                r.Dispute = null;
            });
        }

        /// <summary>Keep this device's bytes as Dropped, and as UnsentCopy if the server does not have them. The
        /// server has only the bytes that it refused; the game may have saved newer ones since.</summary>
        Record GaveWay()
        {
            if (Local == null || Dispute == null)
                return this;
            SaveInfo copy = Dispute.Copy, known = copy ?? Dispute.Base;
            bool needless = known == null || (copy != null && copy.Sha256 == Local.Sha256);
            return With(r =>
            {
                r.Dropped = Local;
                if (!needless)
                    r.UnsentCopy = new Sent { Local = Local, Base = known };
            });
        }

        /// <summary>Hashes of all bytes that may still be asked for.</summary>
        internal ISet<string> Bodies
        {
            get
            {
                Local copy = UnsentCopy == null ? null : UnsentCopy.Local;
                Local[] locals = { Local, Dropped, copy, Sent == null ? null : Sent.Local };
                SaveInfo[] infos = { Base, Remote, Dispute == null ? null : Dispute.Base, Theirs };
                IEnumerable<string> mine = locals.Where(local => local != null).Select(local => local.Sha256);
                return new HashSet<string>(mine.Concat(infos.Where(i => i != null).Select(i => i.Sha256)));
            }
        }

        internal static object Info(SaveInfo info)
        {
            return info == null ? null : info.ToJson();
        }

        internal string ToJson()
        {
            return Json.Write(new Dictionary<string, object>
            {
                { "format", Format }, { "slot", Slot }, { "local", Local.ToJson(Local) }, { "base", Info(Base) },
                { "dirty", Dirty }, { "sent", Sent.ToJson(Sent) }, { "remote", Info(Remote) }, { "deleted", Deleted },
                { "dispute", Dispute.ToJson(Dispute) }, { "dropped", Local.ToJson(Dropped) }, { "spent", Info(Spent) },
                { "unsent_copy", Sent.ToJson(UnsentCopy) },
            });
        }

        /// <summary>Throws FormatException, NotGamed, InvalidCastException, KeyNotFoundException.</summary>
        internal static Record FromJson(byte[] text)
        {
            var value = (IDictionary<string, object>)Json.Parse(text);
            if (value == null || Members.Of<long>(value, "format") != Format)
                throw new FormatException("another format");
            object copy;
            value.TryGetValue("unsent_copy", out copy);  // records of older versions of this client lack it
            var dispute = (IDictionary<string, object>)value["dispute"];
            return new Record
            {
                Slot = Members.Of<string>(value, "slot"),
                Local = Local.FromJson(value["local"]),
                Base = SaveInfo.Maybe(value["base"]),
                Dirty = Members.Of<bool>(value, "dirty"),
                Sent = Sent.FromJson(value["sent"]),
                Remote = SaveInfo.Maybe(value["remote"]),
                Deleted = Members.Of<bool>(value, "deleted"),
                Dispute = dispute == null ? null : new Dispute
                {
                    Reason = Members.Of<string>(dispute, "reason"), Base = SaveInfo.Maybe(dispute["base"]),
                    Current = SaveInfo.Maybe(dispute["current"]), Copy = SaveInfo.Maybe(dispute["copy"]),
                },
                Dropped = Local.FromJson(value["dropped"]),
                Spent = SaveInfo.Maybe(value["spent"]),
                UnsentCopy = Sent.FromJson(copy),
            };
        }
    }

    // --- The disk ----------------------------------------------------------------------------------------------------

    /// <summary>A folder of one player at one server: `cursor`, `lock`, and for each slot a folder with `record` and
    /// bodies. Bodies are on disk before the record that names them, and go after it; only this user can read any of
    /// it.</summary>
    sealed class Store : IDisposable
    {
        readonly string folder;
        readonly IDisposable held;

        /// <summary>Throws InUse.</summary>
        internal Store(string folder)
        {
            this.folder = folder;
            Disk.PrivateFolder(Path.Combine(folder, "slots"));
            held = Disk.TryLock(Path.Combine(folder, "lock"));
            if (held == null)
                throw new InUse("in_use", "This game is running already, with the same saves.");
        }

        public void Dispose()
        {
            held.Dispose();
        }

        /// <summary>By slot. Throws LocalDamaged.</summary>
        internal SortedDictionary<string, Record> Records()
        {
            var found = new SortedDictionary<string, Record>(StringComparer.Ordinal);
            foreach (string place in Directory.GetDirectories(Path.Combine(folder, "slots")))
            {
                string path = Path.Combine(place, "record");
                byte[] text = Disk.Read(path);
                if (text == null)
                    continue;  // the first write to it did not get that far
                try
                {
                    found[Path.GetFileName(place)] = Record.FromJson(text);
                }
                catch (Exception e)
                {
                    if (!(e is FormatException || e is NotGamed || e is InvalidCastException
                        || e is KeyNotFoundException))
                        throw;
                    throw new LocalDamaged("state_damaged",
                        path + " cannot be read; the files beside it are untouched.", e);
                }
                Tidy(found[Path.GetFileName(place)]);
            }
            return found;
        }

        internal void Keep(Record record)
        {
            Disk.PrivateFolder(Of(record.Slot));
            Disk.WriteWhole(Path.Combine(Of(record.Slot), "record"), Encoding.ASCII.GetBytes(record.ToJson()));
            Tidy(record);
        }

        void Tidy(Record record)
        {
            ISet<string> needed = record.Bodies;
            needed.Add("record");
            foreach (string path in Directory.GetFiles(Of(record.Slot)))
                if (!needed.Contains(Path.GetFileName(path)))
                    Discard(path);
        }

        /// <summary>Its hash; on disk when it returns.</summary>
        internal string Add(string slot, byte[] data)
        {
            string digest = Saves.Hex(Saves.Hash(data));
            if (Load(slot, digest) == null)
            {
                Disk.PrivateFolder(Of(slot));
                Disk.WriteWhole(Path.Combine(Of(slot), digest), data);
            }
            return digest;
        }

        /// <summary>Deletes a slot, its record first.</summary>
        internal void Forget(string slot)
        {
            Discard(Path.Combine(Of(slot), "record"));
            foreach (string path in Directory.GetFiles(Of(slot)))
                Discard(path);
        }

        /// <summary>Null when it is not here, or not what it was.</summary>
        internal byte[] Load(string slot, string digest)
        {
            byte[] data = Disk.Read(Path.Combine(Of(slot), digest));
            return data != null && Saves.Hex(Saves.Hash(data)) == digest ? data : null;
        }

        internal void Discard(string slot, string digest)
        {
            Discard(Path.Combine(Of(slot), digest));
        }

        static void Discard(string path)
        {
            try
            {
                File.Delete(path);
            }
            catch (IOException)
            {
            }
            catch (UnauthorizedAccessException)
            {
            }
        }

        internal bool Has(string slot, SaveInfo info)
        {
            var file = new FileInfo(Path.Combine(Of(slot), info.Sha256));
            return file.Exists && file.Length == info.Size;
        }

        internal string Cursor
        {
            get
            {
                byte[] text = Disk.Read(Path.Combine(folder, "cursor"));
                return text == null ? null : Encoding.UTF8.GetString(text);
            }
        }

        internal void KeepCursor(string cursor)
        {
            Disk.WriteWhole(Path.Combine(folder, "cursor"), Encoding.UTF8.GetBytes(cursor));
        }

        string Of(string slot)
        {
            return Path.Combine(folder, "slots", slot);
        }
    }

    // --- What a game sees --------------------------------------------------------------------------------------------

    /// <summary>One slot, for a menu.</summary>
    public sealed class SyncStatus
    {
        /// <summary>The first list of the server has not come to this device yet.</summary>
        public const string Unknown = "unknown";

        /// <summary>Device and server have the same.</summary>
        public const string InStep = "in_step";

        /// <summary>Something is to be brought up or down.</summary>
        public const string Waiting = "waiting";

        /// <summary>Another device saved, or deleted: ReadAsync gives it.</summary>
        public const string Newer = "newer";

        /// <summary>This device and another both went on: the player has to choose.</summary>
        public const string Conflict = "conflict";

        /// <summary>The server does not take it: see Problem; the bytes are kept here.</summary>
        public const string Refused = "refused";

        /// <summary>1 to 64 of a-z 0-9 . _ -</summary>
        public string Slot { get; internal set; }

        /// <summary>One of the texts above.</summary>
        public string State { get; internal set; }

        /// <summary>Of what ReadAsync would give, in bytes, as are the next two; null: nothing, it is
        /// deleted.</summary>
        public long? Size { get; internal set; }

        /// <summary>The `meta` of the save; empty without any.</summary>
        public IDictionary<string, object> Meta { get; internal set; }

        /// <summary>RFC 3339, to show.</summary>
        public string Modified { get; internal set; }

        /// <summary>Versions at the server that lost a conflict, of any device: GamedClient.RestoreAsync or
        /// DismissAsync them.</summary>
        public IList<long> Copies { get; internal set; }

        /// <summary>Why the server does not take it, or null.</summary>
        public GamedError Problem { get; internal set; }

        internal bool Shown
        {
            get { return Size != null || (State != InStep && State != Unknown); }
        }
    }

    /// <summary>One side of a conflict: its bytes, and what to tell the player about them.</summary>
    public sealed class SyncSide
    {
        /// <summary>The bytes, checked.</summary>
        public byte[] Data { get; internal set; }

        /// <summary>A media type.</summary>
        public string ContentType { get; internal set; }

        /// <summary>The `meta` of the save; empty without any.</summary>
        public IDictionary<string, object> Meta { get; internal set; }

        /// <summary>RFC 3339, to show.</summary>
        public string Modified { get; internal set; }
    }

    /// <summary>Both sides went on from <see cref="BaseAsync"/>. Nothing of the slot is sent until it is answered;
    /// the game may play on.</summary>
    public sealed class SyncConflict
    {
        readonly Sync sync;

        internal SyncConflict(Sync sync, string slot, Dispute dispute)
        {
            this.sync = sync;
            Slot = slot;
            Shown = dispute;
        }

        internal Dispute Shown { get; private set; }

        /// <summary>Of the save.</summary>
        public string Slot { get; private set; }

        /// <summary>changed; deleted: at the server; lost: the server does not know this save (erased, or an old
        /// backup).</summary>
        public string Reason
        {
            get { return Shown.Reason; }
        }

        /// <summary>The save that both sides continued, or null.</summary>
        public SaveInfo BaseInfo
        {
            get { return Shown.Base; }
        }

        /// <summary>The server's, or null.</summary>
        public SaveInfo Current
        {
            get { return Shown.Current; }
        }

        /// <summary>The server's conflict copy of this device's side, or null.</summary>
        public SaveInfo Copy
        {
            get { return Shown.Copy; }
        }

        /// <summary>This device's, as it is now; null: it was deleted here.</summary>
        public Task<SyncSide> MineAsync()
        {
            return sync.MineAsync(Slot);
        }

        /// <summary>The server's; null: deleted, or lost. Fetched if it did not arrive yet.</summary>
        public Task<SyncSide> TheirsAsync(CancellationToken cancel = default(CancellationToken))
        {
            return sync.SideAsync(Slot, Current, cancel);
        }

        /// <summary>The save that both sides continued; null if there was none or it was not stored.</summary>
        public async Task<SyncSide> BaseAsync(CancellationToken cancel = default(CancellationToken))
        {
            try
            {
                return await sync.SideAsync(Slot, BaseInfo, cancel).ConfigureAwait(false);
            }
            catch (GamedError)
            {
                return null;
            }
        }

        /// <summary>Write this device's over theirs, which stays in the server's history. Throws
        /// ConflictOver.</summary>
        public Task KeepMineAsync()
        {
            return sync.AnswerAsync(this, record => record.KeptMine());
        }

        /// <summary>Go on from theirs: read it. This device's side stays at the server as a conflict copy: the next
        /// pump sends what the game has saved since the conflict began. It also stays here, see Sync.DroppedAsync.
        /// Throws ConflictOver.</summary>
        public async Task KeepTheirsAsync(CancellationToken cancel = default(CancellationToken))
        {
            await TheirsAsync(cancel).ConfigureAwait(false);
            await sync.AnswerAsync(this, record => record.KeptTheirs()).ConfigureAwait(false);
        }

        /// <summary>Go on from something new that holds both. Throws ConflictOver.</summary>
        public Task MergedAsync(byte[] data, IDictionary<string, object> meta = null)
        {
            return sync.MergedAsync(this, data, meta);
        }
    }

    sealed class Problem
    {
        internal GamedError Error;

        /// <summary>By the monotonic clock, in seconds.</summary>
        internal double Due;

        /// <summary>The server rejected the write.</summary>
        internal bool Final
        {
            get { return (Error.Status >= 400 && Error.Status < 500) || Error is LocalDamaged; }
        }
    }

    /// <summary>Rings until it is cleared.</summary>
    sealed class Bell
    {
        volatile TaskCompletionSource<bool> rung = Fresh();

        static TaskCompletionSource<bool> Fresh()
        {
            return new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
        }

        internal Task Rung
        {
            get { return rung.Task; }
        }

        internal void Ring()
        {
            rung.TrySetResult(true);
        }

        internal void Clear()
        {
            if (rung.Task.IsCompleted)
                rung = Fresh();
        }
    }

    /// <summary>One player's saves on this device, and the way to the server.</summary>
    public sealed class Sync : IDisposable
    {
        const int WaitSeconds = 25;

        /// <summary>How long Dispose waits at most until pending saves are sent.</summary>
        const double ExitSeconds = 5;

        /// <summary>A write that the server refused is tried again after this long, unless it says otherwise: limits
        /// can be changed.</summary>
        const double AgainSeconds = 300;

        /// <summary>How often one pump goes on with a slot that changes meanwhile.</summary>
        const int Steps = 4;

        /// <summary>The server limits the rate of larger requests.</summary>
        const int PageVersions = 32;

        /// <summary>The folder of what a game saved before the first sign-in here: no player's, SafeName gives no such
        /// name.</summary>
        const string Unowned = "not.signed.in";

        readonly GamedClient client;
        readonly string place;
        Store store;

        /// <summary>Around every look at the records and every change; never held while the network is
        /// awaited.</summary>
        readonly object gate = new object();

        readonly object turn = new object();
        Task last = Task.FromResult(true);
        readonly SemaphoreSlim pumping = new SemaphoreSlim(1);
        readonly Bell bell = new Bell();

        readonly CancellationTokenSource closing = new CancellationTokenSource();

        /// <summary>What Start has begun, until it ends.</summary>
        Task running;

        /// <summary>What Start was given.</summary>
        Action<SyncStatus> report = status => { };

        /// <summary>How often Start or RunAsync was called.</summary>
        int starts;

        /// <summary>The same when the last pump began.</summary>
        int pumpStarts;

        /// <summary>The same of the last pump that has ended: Trouble answers these starts, and no later one.</summary>
        int triedStarts;

        /// <summary>Rung when a pump has ended, or this Sync.</summary>
        readonly Bell ended = new Bell();

        readonly Stopwatch clock = Stopwatch.StartNew();
        readonly Dictionary<string, Problem> problems = new Dictionary<string, Problem>();

        /// <summary>Of each slot's UnsentCopy: they hold up neither writes nor downloads.</summary>
        readonly Dictionary<string, Problem> copyProblems = new Dictionary<string, Problem>();

        SortedDictionary<string, Record> records;
        Dictionary<string, string> reported;
        volatile string cursor;
        volatile GamedError trouble;
        volatile bool closed;

        /// <summary>A pump of this Sync has succeeded.</summary>
        /// <summary>The whole list whose pages have begun to come.</summary>
        WholeList whole;

        volatile bool pumped;

        Sync(GamedClient client, string playerId, string place)
        {
            PlayerId = playerId;
            this.client = client;
            this.place = place;
            store = new Store(Path.Combine(place, playerId == "" ? Unowned : SafeName(playerId)));
            try
            {
                records = store.Records();
                cursor = store.Cursor;
                if (playerId != "")
                    AdoptLeft();
            }
            catch
            {
                store.Dispose();
                throw;
            }
            reported = Statuses().Where(s => s.Shown && (s.State == SyncStatus.InStep || s.State == SyncStatus.Waiting))
                .ToDictionary(s => s.Slot, LookOf);
        }

        /// <summary>
        /// Of the player who is signed in; `folder` instead of one beside the credential. Before the first sign-in at
        /// this server the saves wait on this device: the first pump after the sign-in, or the first Sync, adopts them
        /// for the player. Asks no server. Throws SignInRequired after a sign-out, InUse, LocalDamaged, IOException.
        /// </summary>
        public static Task<Sync> OpenAsync(GamedClient client, string folder = null,
            CancellationToken cancel = default(CancellationToken))
        {
            return Task.Run(async () =>
            {
                Credential credential = await client.CredentialAsync(cancel).ConfigureAwait(false);
                folder = folder ?? Path.Combine(client.Folder, "sync");
                string place = Path.GetFullPath(Path.Combine(folder, client.Place));
                if (credential == null && HasPlayers(place))
                    throw SignInRequired.SignedOut();
                return new Sync(client, credential == null ? "" : credential.PlayerId, place);
            }, cancel);
        }

        /// <summary>Whether a player has signed in here before.</summary>
        static bool HasPlayers(string place)
        {
            return Directory.Exists(place)
                && Directory.GetDirectories(place).Any(path => Path.GetFileName(path) != Unowned);
        }

        /// <summary>Whose saves these are; empty before the first sign-in.</summary>
        public string PlayerId { get; private set; }

        /// <summary>Why the last pump did not get through; null when it did: for a sign that says "offline".</summary>
        public GamedError Trouble
        {
            get { return trouble; }
        }

        /// <summary>Let another process have the folder, once what was called before is done: waits for this device's
        /// disk, and after Start at most 5 seconds until pending saves are sent. What is still pending then stays
        /// pending.</summary>
        public void Dispose()
        {
            CloseAsync(ExitSeconds).Wait();
        }

        /// <summary>The same without waiting here; after Start it takes at most `within` seconds until pending saves
        /// are sent, or until the server cannot be reached.</summary>
        public async Task CloseAsync(double within = 0)
        {
            await InTurn(() => true).ConfigureAwait(false);
            if (running != null)
                await UntilAsync(() => NeedsNoLonger, within, CancellationToken.None).ConfigureAwait(false);
            closing.Cancel();
            await InTurn(() =>
            {
                lock (gate)
                {
                    if (!closed)
                        store.Dispose();
                    closed = true;
                }
                ended.Ring();
                return true;
            }).ConfigureAwait(false);
        }

        /// <summary>Whether a pump has nothing more to send, or cannot send it now.</summary>
        bool NeedsNoLonger
        {
            get
            {
                lock (gate)
                {
                    var tried = records.Where(r => !problems.ContainsKey(r.Key) && r.Value.Dispute == null);
                    return closed || (Failed && !LacksSpace) || !tried.Any(r => r.Value.Dirty || r.Value.Sent != null);
                }
            }
        }

        /// <summary>The last pump failed only for a save of another device, which does not fit here: the rest goes up
        /// as ever.</summary>
        bool LacksSpace
        {
            get
            {
                GamedError now = trouble;
                lock (gate)
                    return now != null && now.Code == "local_disk"
                        && problems.Values.Any(problem => problem.Error.Code == "local_disk");
            }
        }

        /// <summary>Wait for the first pump, at most `within` seconds; return whether the first list has ever come
        /// here. Call it after RunAsync was started and before the first ReadAsync. False: this device was never
        /// online with this player; ReadAsync throws NotKnown. A device that knows its saves does not wait for a
        /// server that does not answer.</summary>
        public async Task<bool> ReadyAsync(double within = 5, CancellationToken cancel = default(CancellationToken))
        {
            await UntilAsync(() => NeedsNoWait, within, cancel).ConfigureAwait(false);
            return cursor != null;
        }

        /// <summary>Returns after the pump that made it so, and after `within` seconds at most.</summary>
        async Task UntilAsync(Func<bool> done, double within, CancellationToken cancel)
        {
            double end = Now() + within;
            for (Task rung = ended.Rung; !done() && Now() < end; rung = ended.Rung)
                using (CancellationTokenSource enough = CancellationTokenSource.CreateLinkedTokenSource(cancel))
                {
                    double left = Math.Max(0, Math.Min(end - Now(), 86400));
                    Task time = Task.Delay(TimeSpan.FromSeconds(left), enough.Token);
                    await Task.WhenAny(time, rung).ConfigureAwait(false);
                    enough.Cancel();
                    cancel.ThrowIfCancellationRequested();
                }
        }

        /// <summary>Whether waiting for a pump would not help ReadyAsync.</summary>
        bool NeedsNoWait
        {
            get
            {
                lock (gate)
                    return pumped || closed || (Failed && (cursor != null || Ends(trouble)));
            }
        }

        /// <summary>Whether the last pump failed, and Start was not called since to overcome that.</summary>
        bool Failed
        {
            get { return trouble != null && !(Ends(trouble) && triedStarts != starts); }
        }

        /// <summary>What ends the loop: waiting does not help.</summary>
        static bool Ends(GamedError error)
        {
            return error is SignInRequired || error is PlayerBlocked;
        }

        void NoteEnd(GamedError error)
        {
            lock (gate)
            {
                trouble = error;
                triedStarts = pumpStarts;
            }
            pumped = pumped || error == null;
            ended.Ring();
            ended.Clear();
        }

        // -- the game's side: this device only, no network --

        /// <summary>The newest bytes this device knows; what the game writes next stands on them. Null if the slot
        /// was never written. Throws NotKnown before the first list (see ReadyAsync), Deleted, LocalDamaged, and
        /// Unreachable while a save that is known has not arrived. In a conflict it is this device's side. Etag is
        /// empty for what the server does not have yet.</summary>
        public Task<Save> ReadAsync(string slot)
        {
            return InTurn(() => Look(slot, true));
        }

        /// <summary>The same bytes, but the next write does not stand on them: for a preview, or a copy
        /// elsewhere.</summary>
        public Task<Save> PeekAsync(string slot)
        {
            return InTurn(() => Look(slot, false));
        }

        /// <summary>On this device's disk when it ends, on top of what the game last read or wrote here. It goes up
        /// with the next pump. Newer bytes replace older ones that did not go up yet. Leave `data` as it is
        /// meanwhile. Throws IOException when this device cannot keep it.</summary>
        public Task WriteAsync(string slot, byte[] data, IDictionary<string, object> meta = null,
            string contentType = GamedClient.Bytes)
        {
            Saves.PathOf(slot);
            Dictionary<string, object> plain = Saves.Plain(meta);
            return InTurn(() =>
            {
                lock (gate)
                {
                    Local local = Kept(slot, data, contentType, plain);
                    Change(slot, record => record.Wrote(local));
                }
                bell.Ring();
                return true;
            });
        }

        /// <summary>What this device knows to be newest; a delete at the server can be taken back for a while. Throws
        /// NotKnown before the first list, unless the game has written this slot here.</summary>
        public Task DeleteAsync(string slot)
        {
            Saves.PathOf(slot);
            return InTurn(() =>
            {
                lock (gate)
                {
                    if (IsUnknown(RecordOf(slot)))
                        throw new NotKnown();
                    Change(slot, record => (record.Newer ? record.Took() : record).Wrote(null));
                }
                bell.Ring();
                return true;
            });
        }

        /// <summary>Every slot that holds something, or waits for something.</summary>
        public Task<IList<SyncStatus>> SlotsAsync()
        {
            return InTurn(() => (IList<SyncStatus>)Statuses().Where(status => status.Shown).ToList());
        }

        /// <summary>Of one slot, also of one that holds nothing.</summary>
        public Task<SyncStatus> StatusAsync(string slot)
        {
            return InTurn(() => StatusOf(slot));
        }

        /// <summary>Those the player has to choose in.</summary>
        public Task<IList<SyncConflict>> ConflictsAsync()
        {
            return InTurn(() =>
            {
                lock (gate)
                    return (IList<SyncConflict>)records.Values.Where(record => record.Dispute != null)
                        .Select(record => new SyncConflict(this, record.Slot, record.Dispute)).ToList();
            });
        }

        /// <summary>What gave way here last, to theirs or to a delete, also one of this device: for who changes their
        /// mind.</summary>
        public Task<SyncSide> DroppedAsync(string slot)
        {
            return InTurn(() => Side(slot, record => record.Dropped));
        }

        internal Task<SyncSide> MineAsync(string slot)
        {
            return InTurn(() => Side(slot, record => record.Local));
        }

        /// <summary>On another thread, after what was called before.</summary>
        Task<T> InTurn<T>(Func<T> work)
        {
            lock (turn)
            {
                Task<T> next = last.ContinueWith(before => work(), CancellationToken.None, TaskContinuationOptions.None,
                    TaskScheduler.Default);
                last = next;
                return next;
            }
        }

        Save Look(string slot, bool take)
        {
            Saves.PathOf(slot);
            lock (gate)
            {
                Record record = RecordOf(slot);
                if (IsUnknown(record))
                    throw new NotKnown();
                Record seen = Arrived(record) ? record.Took() : record;
                if (seen.Local == null && record.Newer && record.Remote != null)
                    throw new Unreachable("not_arrived", "This save has not arrived on this device yet.");
                byte[] data = seen.Local == null ? null : BytesOf(slot, seen.Local);
                if (take)
                    Change(slot, r => seen);
                if (seen.Local == null && seen.Deleted)
                    throw new Deleted("deleted", "This save was deleted.");
                if (seen.Local == null)
                    return null;
                string etag = seen.Dirty || seen.Base == null ? "" : seen.Base.Etag;
                return new Save
                {
                    Etag = etag, Data = data, ContentType = seen.Local.ContentType, Meta = Saves.Plain(seen.Local.Meta),
                };
            }
        }

        byte[] BytesOf(string slot, Local local)
        {
            byte[] data = store.Load(slot, local.Sha256);
            if (data == null)
            {
                Record record = RecordOf(slot);
                if (!record.Dirty && record.Base != null)
                    store.Discard(slot, local.Sha256);  // the next pump brings it again
                throw Damaged(slot);
            }
            return data;
        }

        static LocalDamaged Damaged(string slot)
        {
            return new LocalDamaged("local_damaged", "The file of " + slot + " on this device is damaged or gone.");
        }

        /// <summary>Whether the server may have a save of this slot that this device has not heard of.</summary>
        bool IsUnknown(Record record)
        {
            return cursor == null && record.Local == null && record.Base == null && record.Remote == null;
        }

        /// <summary>Something newer is here to be read.</summary>
        bool Arrived(Record record)
        {
            return record.Newer && (record.Remote == null || store.Has(record.Slot, record.Remote));
        }

        IEnumerable<SyncStatus> Statuses()
        {
            lock (gate)
                return records.Keys.Select(StatusOf).ToList();
        }

        SyncStatus StatusOf(string slot)
        {
            lock (gate)
            {
                Record record = RecordOf(slot);
                Problem problem, copyProblem;
                problems.TryGetValue(slot, out problem);
                copyProblems.TryGetValue(slot, out copyProblem);
                Problem visible = problem ?? copyProblem;
                Local shown = Arrived(record) ? Local.Of(record.Remote) : record.Local;
                return new SyncStatus
                {
                    Slot = slot,
                    State = State(record, problem),
                    Size = shown == null ? (long?)null : shown.Size,
                    Meta = Saves.Plain(shown == null ? null : shown.Meta),
                    Modified = shown == null ? "" : shown.Modified,
                    Copies = record.Remote == null ? new List<long>() : record.Remote.Conflicts,
                    Problem = visible == null ? null : visible.Error,
                };
            }
        }

        string State(Record record, Problem problem)
        {
            if (record.Dispute != null)
                return SyncStatus.Conflict;
            if (problem != null)
                return SyncStatus.Refused;
            if (Arrived(record))
                return SyncStatus.Newer;
            if (copyProblems.ContainsKey(record.Slot))
                return SyncStatus.Refused;
            bool waits = record.Dirty || record.Sent != null || record.Newer || record.UnsentCopy != null;
            if (waits)
                return SyncStatus.Waiting;
            return IsUnknown(record) ? SyncStatus.Unknown : SyncStatus.InStep;
        }

        SyncSide Side(string slot, Func<Record, Local> which)
        {
            lock (gate)
            {
                Local local = which(RecordOf(slot));
                if (local == null)
                    return null;
                byte[] data = store.Load(slot, local.Sha256);
                if (data == null)
                    throw Damaged(slot);
                return SideOf(data, local);
            }
        }

        /// <summary>From this device, else from the server.</summary>
        internal Task<SyncSide> SideAsync(string slot, SaveInfo info, CancellationToken cancel)
        {
            return Task.Run(async () =>
            {
                if (info == null)
                    return null;
                byte[] data;
                lock (gate)
                    data = store.Load(slot, info.Sha256);
                if (data == null)
                {
                    data = await FetchedAsync(client.Only(PlayerId), info, cancel).ConfigureAwait(false);
                    KeepBody(slot, data);
                }
                return SideOf(data, Local.Of(info));
            }, cancel);
        }

        static SyncSide SideOf(byte[] data, Local local)
        {
            return new SyncSide
            {
                Data = data, ContentType = local.ContentType, Meta = Saves.Plain(local.Meta), Modified = local.Modified,
            };
        }

        /// <summary>With its bytes on disk.</summary>
        Local Kept(string slot, byte[] data, string contentType, IDictionary<string, object> meta)
        {
            Open();
            string modified = DateTime.UtcNow.ToString("yyyy-MM-dd'T'HH:mm:ss'Z'", CultureInfo.InvariantCulture);
            return new Local
            {
                Sha256 = store.Add(slot, data), Size = data.Length, ContentType = contentType, Meta = meta,
                Modified = modified,
            };
        }

        internal Task MergedAsync(SyncConflict shown, byte[] data, IDictionary<string, object> meta)
        {
            Dictionary<string, object> plain = Saves.Plain(meta);
            return InTurn(() =>
            {
                lock (gate)
                {
                    Local like = RecordOf(shown.Slot).Local ?? Local.Of(shown.Current);
                    string contentType = like == null ? GamedClient.Bytes : like.ContentType;
                    Local local = Kept(shown.Slot, data, contentType, plain);
                    return Answered(shown, record => record.Merged(local));
                }
            });
        }

        internal Task AnswerAsync(SyncConflict shown, Func<Record, Record> how)
        {
            return InTurn(() => Answered(shown, how));
        }

        bool Answered(SyncConflict shown, Func<Record, Record> how)
        {
            lock (gate)
            {
                Dispute dispute = RecordOf(shown.Slot).Dispute;
                if (dispute == null || !Json.Same(Dispute.ToJson(dispute), Dispute.ToJson(shown.Shown)))
                    throw new ConflictOver();
                Change(shown.Slot, how);
            }
            bell.Ring();
            return true;
        }

        Record RecordOf(string slot)
        {
            Record record;
            return records.TryGetValue(slot, out record) ? record : new Record { Slot = slot };
        }

        /// <summary>On disk when it returns.</summary>
        Record Change(string slot, Func<Record, Record> how)
        {
            lock (gate)
            {
                Open();
                Record before = RecordOf(slot), after = how(before);
                if (after != before && after.ToJson() != before.ToJson())
                {
                    store.Keep(after);
                    records[slot] = after;
                }
                return after;
            }
        }

        void Open()
        {
            if (closed)
                throw new InUse("closed", "The saves of this device were closed.");
        }

        // -- the server's side --

        /// <summary>Hear what changed, bring up what is pending, fetch what is newer; gives what a game should look
        /// at again. Throws what is about the server or the player (Unreachable, SignInRequired, ...); what is about
        /// one slot is in its status. Nothing is lost by a failure, or by the end of the process: call it
        /// again.</summary>
        public Task<IList<SyncStatus>> PumpAsync(CancellationToken cancel = default(CancellationToken))
        {
            return Task.Run(async () =>
            {
                await PumpOnceAsync(cancel).ConfigureAwait(false);
                return News();
            }, cancel);
        }

        async Task PumpOnceAsync(CancellationToken cancel)
        {
            await pumping.WaitAsync(cancel).ConfigureAwait(false);
            try
            {
                lock (gate)
                    pumpStarts = starts;
                await PumpHereAsync(cancel).ConfigureAwait(false);
                NoteEnd(null);
            }
            catch (GamedError error)
            {
                NoteEnd(error);
                throw;
            }
            finally
            {
                pumping.Release();
            }
        }

        /// <summary>Adopt what was saved here before the sign-in, unless another process has it open.</summary>
        void AdoptLeft()
        {
            string folder = Path.Combine(place, Unowned);
            if (!Directory.Exists(folder))
                return;
            try
            {
                using (var left = new Store(folder))
                    Adopt(left, left.Records());
            }
            catch (InUse)
            {
            }
        }

        /// <summary>Take over the saves of `left`; one whose slot has something pending waits there for the next
        /// start.</summary>
        void Adopt(Store left, SortedDictionary<string, Record> theirs)
        {
            foreach (KeyValuePair<string, Record> each in theirs)
            {
                string slot = each.Key;
                Local local = each.Value.Local;
                Record mine = RecordOf(slot);
                if (local != null && !Local.Same(mine.Local, local))
                {
                    byte[] data = left.Load(slot, local.Sha256);
                    if (data == null || !mine.Idle)
                        continue;
                    store.Add(slot, data);
                    Change(slot, record => record.Adopted(local));
                }
                left.Forget(slot);
            }
        }

        /// <summary>Open the player's saves once a player has signed in, and adopt what was saved before.</summary>
        async Task OwnAsync(CancellationToken cancel)
        {
            Credential credential = await client.CredentialAsync(cancel).ConfigureAwait(false);
            if (credential == null)
                throw SignInRequired.SignedOut();
            lock (gate)
            {
                Open();
                var opened = new Store(Path.Combine(place, SafeName(credential.PlayerId)));
                SortedDictionary<string, Record> found, theirs = records;
                string known;
                try
                {
                    found = opened.Records();
                    known = opened.Cursor;
                }
                catch
                {
                    opened.Dispose();
                    throw;
                }
                using (Store left = store)
                {
                    PlayerId = credential.PlayerId;
                    store = opened;
                    records = found;
                    cursor = known;
                    Adopt(left, theirs);
                }
            }
        }

        async Task PumpHereAsync(CancellationToken cancel)
        {
            if (PlayerId == "")
                await OwnAsync(cancel).ConfigureAwait(false);
            GamedClient only = client.Only(PlayerId, 1);
            await HearAsync(only, cancel).ConfigureAwait(false);
            foreach (string slot in Known())
            {
                await SendCopyAsync(only, slot, cancel).ConfigureAwait(false);
                for (int step = 0; step < Steps; step++)
                    if (!await SendAsync(only, slot, cancel).ConfigureAwait(false))
                        break;
                await DismissAsync(only, slot, cancel).ConfigureAwait(false);
            }
            foreach (string slot in Known())
                await FetchAsync(only, slot, cancel).ConfigureAwait(false);
            lock (gate)
            {
                Problem full = problems.Values.FirstOrDefault(problem => problem.Error.Code == "local_disk");
                if (full != null)  // as long as a save of another device has no space here
                    throw new LocalDamaged("local_disk", full.Error.Detail);
            }
        }

        /// <summary>Pump whenever there is something to do, until `stop`, then end soon. `changed` is called on
        /// threads of the pool, with what a game should look at again. Throws what waiting does not help against:
        /// SignInRequired, PlayerBlocked, InUse once this Sync is closed; run it again after a sign-in. All else is
        /// tried again, and in Trouble meanwhile.</summary>
        public Task RunAsync(Action<SyncStatus> changed = null,
            CancellationToken stop = default(CancellationToken))
        {
            lock (gate)
                starts++;
            return Task.Run(() => RunHereAsync(changed ?? (status => { }), stop));
        }

        /// <summary>The same in the background, until this Sync is closed; why it ended earlier is in Trouble. After
        /// such an end call it again, once a player has signed in. While it works, a further call only replaces
        /// `changed`, if it has one.</summary>
        public void Start(Action<SyncStatus> changed = null)
        {
            lock (gate)
            {
                Open();
                report = changed ?? report;
                starts++;
                if (running == null)
                    running = Task.Run(() => RunUntilClosedAsync());
            }
        }

        /// <summary>Run again after a Start that came during the pump which ended the loop: its error is an older
        /// sign-in's.</summary>
        async Task RunUntilClosedAsync()
        {
            for (bool more = true; more;)
            {
                bool failed = false;
                try
                {
                    await RunAsync(status => report(status), closing.Token).ConfigureAwait(false);
                }
                catch (GamedError)
                {
                    // in Trouble
                }
                catch (Exception)
                {
                    failed = true;  // of the game's own `changed`, or of this device: nobody awaits this task
                }
                lock (gate)
                {
                    more = !failed && !closing.IsCancellationRequested && triedStarts != starts;
                    if (!more)
                        running = null;
                }
            }
        }

        async Task RunHereAsync(Action<SyncStatus> changed, CancellationToken stop)
        {
            using (CancellationTokenSource over = CancellationTokenSource.CreateLinkedTokenSource(stop))
            {
                Task listening = Task.Run(() => ListenAsync(over.Token));
                try
                {
                    for (int attempt = 0; !stop.IsCancellationRequested;)
                    {
                        bell.Clear();
                        GamedError error = await TriedAsync(stop).ConfigureAwait(false);
                        foreach (SyncStatus status in News())
                            changed(status);
                        attempt = error == null ? 0 : Math.Min(attempt + 1, 8);
                        double seconds = error == null ? UntilDue() : Wire.PauseAfter(error, attempt);
                        await PauseAsync(seconds, error == null || LacksSpace, stop).ConfigureAwait(false);
                    }
                }
                catch (Exception e)
                {
                    if (!stop.IsCancellationRequested || !(e is InUse || e is OperationCanceledException))
                        throw;
                }
                finally
                {
                    over.Cancel();
                    listening.Forget();
                }
            }
        }

        /// <summary>Pump; why it did not get through, if that may pass.</summary>
        async Task<GamedError> TriedAsync(CancellationToken stop)
        {
            try
            {
                await PumpOnceAsync(stop).ConfigureAwait(false);
            }
            catch (GamedError error)
            {
                if (Ends(error) || error is InUse)
                    throw;
            }
            catch (Exception error)
            {
                GamedError problem = Errors.OfDisk(error);
                if (problem == null)
                    throw;
                NoteEnd(problem);
            }
            return trouble;
        }

        /// <summary>Until it is time, or the game or the server has something new.</summary>
        async Task PauseAsync(double seconds, bool heed, CancellationToken stop)
        {
            using (CancellationTokenSource enough = CancellationTokenSource.CreateLinkedTokenSource(stop))
            {
                Task time = Task.Delay(TimeSpan.FromSeconds(Math.Min(seconds, 86400)), enough.Token);
                await (heed ? Task.WhenAny(time, bell.Rung) : Task.WhenAny(time)).ConfigureAwait(false);
                enough.Cancel();
            }
        }

        double UntilDue()
        {
            lock (gate)
            {
                IEnumerable<Problem> all = problems.Values.Concat(copyProblems.Values);
                return Math.Max(0, all.Select(p => p.Due).DefaultIfEmpty(1e9).Min() - Now());
            }
        }

        double Now()
        {
            return clock.Elapsed.TotalSeconds;
        }

        /// <summary>Wait at the server for changes, and ring. What changed is for the pump to hear.</summary>
        async Task ListenAsync(CancellationToken over)
        {
            try
            {
                for (int attempt = 0; ;)
                {
                    string asked = cursor;
                    double began = Now();
                    bool rang = false;
                    GamedError error = null;
                    try
                    {
                        rang = asked != null && await WaitedAsync(asked, over).ConfigureAwait(false);
                        attempt = 0;
                    }
                    catch (GamedError e)
                    {
                        error = e;
                    }
                    if (rang || Ends(error))  // a pump tries the same; after a sign-in it succeeds: wait again
                        bell.Ring();
                    if (error != null)
                        await Delay(Wire.PauseAfter(error, attempt), over).ConfigureAwait(false);
                    if (error != null)
                        attempt = Math.Min(attempt + 1, 8);
                    if (rang || Now() - began < 1)  // until the pump has heard; and a server that does not wait
                        await Delay(1, over).ConfigureAwait(false);
                }
            }
            catch (OperationCanceledException)
            {
            }
        }

        static Task Delay(double seconds, CancellationToken cancel)
        {
            return Task.Delay(TimeSpan.FromSeconds(seconds), cancel);
        }

        async Task<bool> WaitedAsync(string asked, CancellationToken cancel)
        {
            Changes found = await client.Only(PlayerId, 1).ChangesAsync(asked, WaitSeconds, cancel)
                .ConfigureAwait(false);
            return found.Cursor != asked;
        }

        string[] Known()
        {
            lock (gate)
                return records.Keys.ToArray();
        }

        /// <summary>The statuses that have changed since the last report to the game.</summary>
        IList<SyncStatus> News()
        {
            lock (gate)
            {
                List<SyncStatus> statuses = Statuses().ToList();
                Dictionary<string, string> before = reported, now = statuses.ToDictionary(s => s.Slot, LookOf);
                reported = now;
                return statuses.Where(s => s.Shown && (!before.ContainsKey(s.Slot) || before[s.Slot] != now[s.Slot]))
                    .ToList();
            }
        }

        /// <summary>What makes a status another one for the game: where the server's side matters, which one it is.
        /// </summary>
        string LookOf(SyncStatus status)
        {
            SaveInfo remote = RecordOf(status.Slot).Remote;
            bool theirs = status.State == SyncStatus.Newer || status.State == SyncStatus.Conflict;
            string of = theirs && remote != null ? remote.Etag : "";
            return status.State + " " + of + " " + (status.Problem == null ? "" : status.Problem.Code);
        }

        /// <summary>The whole list, before any write, page by page.</summary>
        async Task HearAsync(GamedClient only, CancellationToken cancel)
        {
            while (await HearPageAsync(only, cancel).ConfigureAwait(false))
            {
            }
        }

        /// <summary>True if there are more changes. The cursor is kept last, so that a page that was cut off is listed
        /// again.</summary>
        async Task<bool> HearPageAsync(GamedClient only, CancellationToken cancel)
        {
            string asked = whole == null ? cursor : whole.Cursor;
            Changes changes = await ChangesAsync(only, asked, cancel).ConfigureAwait(false);
            if (changes.More && changes.Cursor == asked)
                throw new NotGamed("The server's pages of changes do not end.");
            var listed = new Dictionary<string, SaveInfo>();  // null: deleted
            foreach (SaveInfo info in changes.Saves.Where(info => Saves.IsSlot(info.Slot)))
                listed[info.Slot] = info;  // names of a later protocol are left alone
            foreach (Deletion deletion in changes.Deletions.Where(deletion => Saves.IsSlot(deletion.Slot)))
                listed[deletion.Slot] = null;
            if (changes.Whole)
                whole = new WholeList { Expired = changes.Expired };
            if (whole != null)
            {
                whole.Add(changes.Cursor, listed);
                if (changes.More)
                    return true;
                await HearAllAsync(only, whole, cancel).ConfigureAwait(false);
                listed = whole.Listed;
            }
            foreach (KeyValuePair<string, SaveInfo> entry in listed)
                Change(entry.Key, record => record.Heard(entry.Value, entry.Value == null));
            lock (gate)
            {
                Open();
                if (changes.Cursor != cursor)
                    store.KeepCursor(changes.Cursor);
                cursor = changes.Cursor;
            }
            whole = null;
            return changes.More;
        }

        async Task<Changes> ChangesAsync(GamedClient only, string asked, CancellationToken cancel)
        {
            try
            {
                return await only.ChangesAsync(asked, 0, cancel).ConfigureAwait(false);
            }
            catch (Refused error)
            {
                if (asked == null || error.Status != 400)
                    throw;
            }
            return await only.ChangesAsync(null, 0, cancel).ConfigureAwait(false);  // it does not know such a cursor
        }

        /// <summary>The past may be another one: what this device stands on must be in the server's, or it is news
        /// again.</summary>
        async Task HearAllAsync(GamedClient only, WholeList all, CancellationToken cancel)
        {
            lock (gate)
            {
                problems.Clear();
                copyProblems.Clear();
            }
            foreach (string slot in Known().Where(each => !all.Compared.Contains(each)))
            {
                Record record;
                lock (gate)
                    record = RecordOf(slot);
                SaveInfo entry;
                bool has = all.Listed.TryGetValue(slot, out entry);
                bool moved = record.Base != null && (entry == null || record.Base.Etag != entry.Etag);
                if (!has && all.Expired)
                    Change(slot, r => r.Expired());
                else if (!has || moved)
                    await CompareAsync(only, record, has, entry, cancel).ConfigureAwait(false);
                all.Compared.Add(slot);
            }
        }

        async Task CompareAsync(GamedClient only, Record record, bool has, SaveInfo entry, CancellationToken cancel)
        {
            SaveInfo stands = record.Base ?? record.Remote;
            IList<SaveVersion> history = stands == null ? new SaveVersion[0]
                : await HistoryAsync(only, record.Slot, stands.Version, cancel).ConfigureAwait(false);
            SaveVersion newest = history.FirstOrDefault(version => version.Kind != "conflict");
            bool deleted = newest != null && newest.Kind == "delete";
            bool kept = record.Base == null
                || history.Any(version => version.Save != null && version.Save.Etag == record.Base.Etag);
            bool agrees = entry != null && record.Local != null && entry.Sha256 == record.Local.Sha256;
            bool known = (kept && (deleted || has)) || agrees;
            Change(record.Slot, r => r.Relisted(known, deleted, has));
        }

        /// <summary>Empty for a slot that the server never had; versions older than `downTo` do not matter.</summary>
        static async Task<IList<SaveVersion>> HistoryAsync(GamedClient only, string slot, long downTo,
            CancellationToken cancel)
        {
            try
            {
                return await only.VersionsAsync(slot, cancel, downTo, PageVersions).ConfigureAwait(false);
            }
            catch (NotFound)
            {
                return new SaveVersion[0];
            }
        }

        /// <summary>What ends a pump: it is about the server or the player, not about one slot.</summary>
        static bool Halts(GamedError error)
        {
            return error is Unreachable || error is Busy || error is RateLimited || error is SignInRequired
                || error is PlayerBlocked || error is NotGamed || error is UntrustedAddress;
        }

        /// <summary>What is pending of a slot; true if there may be more.</summary>
        async Task<bool> SendAsync(GamedClient only, string slot, CancellationToken cancel)
        {
            Record record = Next(slot);
            if (record == null || record.Sent == null)
                return false;
            try
            {
                Func<Record, Record> how = record.Sent.Local == null
                    ? await RemoveAsync(only, slot, record.Sent, cancel).ConfigureAwait(false)
                    : await PutAsync(only, slot, record.Sent, cancel).ConfigureAwait(false);
                Change(slot, how);
            }
            catch (GamedError error)
            {
                if (Halts(error) || error is InUse)
                    throw;
                Refuse(problems, slot, error);
            }
            return true;
        }

        /// <summary>The record with what to send now, noted on disk before it is sent: the same again until it is
        /// answered.</summary>
        Record Next(string slot)
        {
            lock (gate)
            {
                Record record = RecordOf(slot);
                Sent sent = record.Sent;
                Problem problem;
                if (problems.TryGetValue(slot, out problem) && sent != null)
                {
                    if (problem.Final && !Local.Same(sent.Local, record.Local))
                        sent = null;  // it was refused as it was; the game has something else now
                    else if (Now() < problem.Due)
                        return null;
                }
                if (record.Dispute != null || (sent == null && !record.Dirty))
                    return null;
                problems.Remove(slot);
                if (sent == null && record.Local == null && record.Base == null)
                {
                    Change(slot, r => r.With(fresh =>  // it never left this device
                    {
                        fresh.Dirty = false;
                        fresh.Sent = null;
                    }));
                    return null;
                }
                return Change(slot, r => r.With(f => f.Sent = sent ?? new Sent { Local = r.Local, Base = r.Base }));
            }
        }

        async Task<Func<Record, Record>> PutAsync(GamedClient only, string slot, Sent sent, CancellationToken cancel)
        {
            byte[] data;
            lock (gate)
                data = BytesOf(slot, sent.Local);
            IDictionary<string, object> meta = sent.Local.Meta.Count == 0 ? null : sent.Local.Meta;
            try
            {
                SaveInfo info = await only.PutAsync(slot, data, sent.Base, sent.Local.ContentType, meta, cancel)
                    .ConfigureAwait(false);
                return record => record.Written(info);
            }
            catch (Conflict error)
            {
                if (error.Code == "superseded")
                    return record => record.Superseded(error);
                return record => record.Disputed(error);
            }
        }

        async Task<Func<Record, Record>> RemoveAsync(GamedClient only, string slot, Sent sent, CancellationToken cancel)
        {
            Conflict error;
            try
            {
                await only.DeleteAsync(slot, sent.Base, cancel).ConfigureAwait(false);
                return record => record.Removed(null);
            }
            catch (NotFound)
            {
                return record => record.Removed(null);  // there is nothing, which is what was wanted
            }
            catch (Conflict refusal)
            {
                error = refusal;
            }
            IList<SaveVersion> history = await only.VersionsAsync(slot, cancel, sent.Base.Version, PageVersions)
                .ConfigureAwait(false);
            if (history.Any(version => version.Kind == "delete" && version.Parent == sent.Base.Version))
                return record => record.Removed(error.Current);  // it took place, and another device wrote since
            return record => record.Disputed(error);
        }

        void Refuse(IDictionary<string, Problem> which, string slot, GamedError error)
        {
            lock (gate)
                which[slot] = new Problem { Error = error, Due = Now() + (error.RetryAfter ?? AgainSeconds) };
        }

        /// <summary>Send the slot's UnsentCopy, until the server has answered. Other writes do not wait for it.
        /// </summary>
        async Task SendCopyAsync(GamedClient only, string slot, CancellationToken cancel)
        {
            Sent copy;
            byte[] data;
            lock (gate)
            {
                Record record = RecordOf(slot);
                Problem problem;
                bool waits = copyProblems.TryGetValue(slot, out problem) && Now() < problem.Due;
                copy = record.UnsentCopy;
                if (copy == null || copy.Local == null || record.Sent != null || waits)
                    return;
                data = store.Load(slot, copy.Local.Sha256);
            }
            IDictionary<string, object> meta = copy.Local.Meta.Count == 0 ? null : copy.Local.Meta;
            try
            {
                if (data != null)  // a damaged file cannot be sent
                    await only.PutAsync(slot, data, copy.Base, copy.Local.ContentType, meta, cancel)
                        .ConfigureAwait(false);
            }
            catch (Conflict)
            {
                // the server has kept the bytes, or does not know this save
            }
            catch (GamedError error)
            {
                if (Halts(error) || error is InUse)
                    throw;
                Refuse(copyProblems, slot, error);
                return;
            }
            lock (gate)
            {
                copyProblems.Remove(slot);
                Change(slot, r => r.UnsentCopy == copy ? r.With(fresh => fresh.UnsentCopy = null) : r);
            }
        }

        /// <summary>A conflict's copy whose bytes became current is not shown to the player as one any more.</summary>
        async Task DismissAsync(GamedClient only, string slot, CancellationToken cancel)
        {
            Record record;
            lock (gate)
                record = RecordOf(slot);
            if (record.Spent == null || record.Dirty || record.Sent != null || record.Dispute != null)
                return;
            if (record.Base != null && record.Base.Sha256 == record.Spent.Sha256)
            {
                try
                {
                    await only.DismissAsync(slot, record.Spent.Version, cancel).ConfigureAwait(false);
                }
                catch (GamedError error)
                {
                    if (Halts(error))
                        throw;  // else it goes by itself in time
                }
            }
            Change(slot, r => r.With(fresh => fresh.Spent = null));
        }

        /// <summary>What the game may ask for next, so that it can offline.</summary>
        async Task FetchAsync(GamedClient only, string slot, CancellationToken cancel)
        {
            SaveInfo wanted;
            lock (gate)
            {
                Record record = RecordOf(slot);
                Problem problem;
                bool waits = problems.TryGetValue(slot, out problem) && Now() < problem.Due;
                wanted = record.Dispute != null ? record.Dispute.Current : record.Newer ? record.Remote
                    : record.Dirty ? null : record.Base;
                if (wanted == null || store.Has(slot, wanted) || waits)
                    return;
            }
            try
            {
                KeepBody(slot, await FetchedAsync(only, wanted, cancel).ConfigureAwait(false));
            }
            catch (NotFound)
            {
                return;  // replaced meanwhile: the next list says by what
            }
            catch (GamedError error)
            {
                if (Halts(error) || error is InUse)
                    throw;
                Refuse(problems, slot, error);
                return;
            }
            catch (Exception error)
            {
                GamedError full = Errors.OfDisk(error);
                if (full == null)
                    throw;
                Refuse(problems, slot, full);  // else each pump would download it again
                return;
            }
            lock (gate)
                problems.Remove(slot);
        }

        /// <summary>Keep the bytes while a record names them.</summary>
        void KeepBody(string slot, byte[] data)
        {
            lock (gate)
            {
                Open();
                if (RecordOf(slot).Bodies.Contains(Saves.Hex(Saves.Hash(data))))
                    store.Add(slot, data);
            }
        }

        static async Task<byte[]> FetchedAsync(GamedClient only, SaveInfo info, CancellationToken cancel)
        {
            Save found = await only.VersionAsync(info.Slot, info.Version, cancel).ConfigureAwait(false);
            if (Saves.Hex(Saves.Hash(found.Data)) != info.Sha256)
                throw new NotFound("version_gone", "The server has another save under this version.");
            return found.Data;
        }

        static string SafeName(string name)
        {
            bool safe = Regex.IsMatch(name, @"\A[A-Za-z0-9_-]{1,64}\z");
            return safe ? name : Saves.Hex(Saves.Hash(Encoding.UTF8.GetBytes(name)));
        }
    }
}
