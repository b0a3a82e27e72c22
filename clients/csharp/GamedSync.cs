// Offline play for GamedClient.cs: a game saves to this device, which sends the saves when the server can be reached.
//
// Copy it beside GamedClient.cs; C# 6, nothing beyond mscorlib, System and System.Core.
//
//     Sync sync = await Sync.OpenAsync(client);            // needs no network, and for the first saves no sign-in
//     sync.Start(OnChange);                                // in the background, until the Sync is closed
//     await sync.ReadyAsync();                             // until the server has responded, at most 5 seconds
//     Save save = await sync.ReadAsync("auto");            // null: never saved; NotKnownException: never online
//     await sync.WriteAsync("auto", bytes);                // on this device's disk when it ends
//     foreach (SyncConflict conflict in await sync.ConflictsAsync())    // both sides have changed: the player chooses
//         await conflict.KeepMineAsync();                  // or KeepTheirsAsync(), or MergedAsync(bytes)
//
// A write is based on the version that the game last read or wrote, never on one that has only been downloaded: it does
// not overwrite progress that the player has not seen. No rule uses a clock. All rules: docs/developers/offline.md.
//
// Every failure is a GamedException. Methods may be called from any thread and do
// their work on threads of the pool, in the order of the calls; one process at a time may use a player's folder.

using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Runtime.ExceptionServices;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;

namespace Gamed
{
    /// <summary>The older name of <see cref="NotKnownException"/>.</summary>
    public class NotKnown : UnreachableException
    {
        internal NotKnown() : base("not_known",
            "This device has not reached the server yet, so it does not know this save.") { }
    }

    /// <summary>This device has not received the server's list yet: the server may have a save of this slot.</summary>
    public class NotKnownException : NotKnown { internal NotKnownException() { } }

    /// <summary>The older name of <see cref="ConflictOverException"/>.</summary>
    public class ConflictOver : GamedException { internal ConflictOver(Failure how) : base(how) { } }

    /// <summary>The sides have changed since this conflict was shown, or it was settled: read the conflicts
    /// again.</summary>
    public class ConflictOverException : ConflictOver
    {
        internal ConflictOverException()
            : base(new Failure("conflict_over", "This conflict has changed since it was shown.")) { }
    }

    // --- The record of a slot: immutable, every change returns a new record ------------------------------------------

    /// <summary>Bytes on this device, in a file named by their hash.</summary>
    sealed class Local
    {
        internal string Sha256;
        internal long Size;
        internal string ContentType;
        internal IDictionary<string, object> Meta;

        /// <summary>RFC 3339, by this device's or the server's clock: only show it to the player.</summary>
        internal string Modified;

        internal static Local Of(SaveInfo info) =>
            info == null ? null : new Local
            {
                Sha256 = info.Sha256, Size = info.Size, ContentType = info.ContentType, Meta = info.Meta,
                Modified = info.Modified,
            };

        /// <summary>Returns a copy with the content type and meta in the server's spelling.</summary>
        internal Local Labelled(SaveInfo info) =>
            new Local
            {
                Sha256 = Sha256, Size = Size, ContentType = info.ContentType, Meta = info.Meta, Modified = Modified,
            };

        /// <summary>Compares bytes, content type and meta; null equals null.</summary>
        internal static bool Same(Local one, Local other)
        {
            if (one == null || other == null)
                return one == other;
            return one.Sha256 == other.Sha256 && one.ContentType == other.ContentType
                && Json.Same(one.Meta, other.Meta);
        }

        internal static object ToJson(Local local) =>
            local == null ? null : new Dictionary<string, object>
            {
                { "sha256", local.Sha256 }, { "size", local.Size }, { "content_type", local.ContentType },
                { "meta", local.Meta }, { "modified", local.Modified },
            };

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

    /// <summary>A write, or with Local null a delete, that was sent and may have arrived: it is repeated before any
    /// other is sent.</summary>
    sealed class Sent
    {
        internal Local Local;
        internal SaveInfo Base;

        internal static object ToJson(Sent sent) =>
            sent == null ? null : new Dictionary<string, object>
            {
                { "local", Local.ToJson(sent.Local) }, { "base", Record.Info(sent.Base) },
            };

        internal static Sent FromJson(object value)
        {
            var members = (IDictionary<string, object>)value;
            return members == null ? null : new Sent
            {
                Local = Local.FromJson(members["local"]), Base = SaveInfo.Maybe(members["base"]),
            };
        }
    }

    /// <summary>The server's response to a refused write. Reason: changed, deleted, or lost (it does not know this
    /// save).</summary>
    sealed class Dispute
    {
        internal string Reason;
        internal SaveInfo Base;
        internal SaveInfo Current;

        /// <summary>The conflict copy that the server keeps of the refused bytes.</summary>
        internal SaveInfo Copy;

        internal static object ToJson(Dispute dispute) =>
            dispute == null ? null : new Dictionary<string, object>
            {
                { "reason", dispute.Reason }, { "base", Record.Info(dispute.Base) },
                { "current", Record.Info(dispute.Current) }, { "copy", Record.Info(dispute.Copy) },
            };
    }

    /// <summary>A whole list whose pages are arriving; after an interruption the next SendAsync continues it.</summary>
    sealed class WholeList
    {
        internal string Cursor;

        /// <summary>A slot that is missing on all pages was deleted long ago.</summary>
        internal bool Expired;

        /// <summary>By slot; null: deleted.</summary>
        internal readonly Dictionary<string, SaveInfo> Listed = new Dictionary<string, SaveInfo>();

        /// <summary>The slots whose base was compared with their entry.</summary>
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

        /// <summary>The version that Local is based on: the game last read it, or the server last acknowledged
        /// it.</summary>
        internal SaveInfo Base;

        /// <summary>True if the game has changed Local since.</summary>
        internal bool Dirty;

        internal Sent Sent;

        /// <summary>The server's version, as last listed.</summary>
        internal SaveInfo Remote;

        /// <summary>True without bytes if there were some before.</summary>
        internal bool Deleted;

        internal Dispute Dispute;

        /// <summary>The bytes that a conflict or a delete last replaced on this device.</summary>
        internal Local Dropped;

        /// <summary>A conflict copy at the server that is not needed once its bytes are current.</summary>
        internal SaveInfo Spent;

        /// <summary>Bytes that a conflict replaced before the server had them. Its Base is never current, so the server
        /// refuses the write and keeps the bytes as a conflict copy.</summary>
        internal Sent UnsentCopy;

        /// <summary>The cursor that this device had when the server acknowledged Base: the list of changes after it has
        /// Base.</summary>
        internal string Unlisted;

        /// <summary>Bytes of another player that AdoptAsync has copied and the game has not read: they replace nothing
        /// here.</summary>
        internal Local Offered;

        internal Record With(Action<Record> change)
        {
            var copy = (Record)MemberwiseClone();
            change(copy);
            return copy;
        }

        static string Tag(SaveInfo info) => info?.Etag;

        /// <summary>True if the server has a version that the game has not read, and the game has not changed its
        /// own.</summary>
        internal bool Newer => Idle && Tag(Remote) != Tag(Base) && (Remote != null || Deleted);

        /// <summary>Records a write of the game; the same bytes are not a change.</summary>
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

        /// <summary>Records a delete of the game; a version that the game has not read makes it a
        /// conflict.</summary>
        internal Record RemovedHere(bool includingNewer)
        {
            if (includingNewer && Offered != null)
                return With(r => r.Offered = null).RemovedHere(true);
            if (!Newer)
                return Wrote(null);
            if (Remote == null || includingNewer)
                return Took().Wrote(null);
            return Wrote(null).With(r =>
            {
                r.Dirty = true;
                r.Deleted = true;
                r.Dispute = new Dispute { Reason = "changed", Base = Base, Current = Remote };
            });
        }

        /// <summary>Records that the game has read the newer version.</summary>
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

        /// <summary>Records the server's version of a list. The same bytes are never a conflict, whichever device wrote
        /// them.</summary>
        internal Record Heard(SaveInfo remote, bool deleted = false)
        {
            Record record = With(r =>
            {
                r.Remote = remote;
                r.Deleted = remote == null && deleted;
                if (remote != null && Offered != null && Offered.Sha256 == remote.Sha256)
                    r.Offered = null;
            });
            if (remote == null)
                return Local == null && Sent == null ? record.Settled(null) : record.Moved();
            if (Sent != null && Sent.Local != null && Sent.Local.Sha256 == remote.Sha256)
                return record.Acknowledged(remote, Local.Same(Sent.Local, Local.Of(remote)));
            if (Local != null && Local.Sha256 == remote.Sha256 && Sent == null)
                return record.Settled(remote);
            return record.Moved();
        }

        /// <summary>Records that both sides have the same bytes. The game's content type and meta are still sent if
        /// they differ; without own changes it adopts the server's.</summary>
        Record Settled(SaveInfo remote) =>
            With(r =>
            {
                r.Base = remote;
                r.Dispute = null;
                if (!Dirty && remote != null)
                    r.Local = Local.Of(remote);
                else
                    r.Dirty = remote != null && !Local.Same(Local, Local.Of(remote));
            });

        /// <summary>Updates an open conflict to the server's current version.</summary>
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

        /// <summary>Records an entry of a whole list. `known`: the server's history contains the base of this record.
        /// If it does not, the server has lost an acknowledged write, and the game's bytes are pending again.</summary>
        internal Record Relisted(bool known, bool deleted, bool listed)
        {
            Record record = known || Dirty || Local == null ? this : With(r => r.Dirty = true);
            return listed ? record : record.Heard(null, deleted);
        }

        /// <summary>Records that a whole list lacks this slot because it was deleted long ago.</summary>
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

        /// <summary>Records that the server performed Sent, as `info`; the game may have written since.</summary>
        internal Record Acknowledged(SaveInfo info, bool exactly = true)
        {
            bool done = exactly && Local.Same(Local, Sent?.Local);
            return With(r =>
            {
                if (done && info != null && Local != null)
                    r.Local = Local.Labelled(info);
                r.Base = info;
                r.Dirty = !done;
                r.Sent = null;
            });
        }

        /// <summary>Records that the server performed Sent, as `info`, and has `current` now: another device may have
        /// written after it.</summary>
        internal Record Performed(SaveInfo info, SaveInfo current) =>
            Acknowledged(info).With(r =>
            {
                r.Remote = current;
                r.Deleted = current == null;
            });

        internal Record Written(SaveInfo info, string cursor) =>
            Performed(info, info).With(r => r.Unlisted = cursor);

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

        SaveInfo Theirs => Dispute?.Current;

        /// <summary>True if this device has neither a pending write nor a conflict here.</summary>
        internal bool Idle => !Dirty && Sent == null && Dispute == null;

        /// <summary>Adopts bytes from before the sign-in, without a base, so that they never replace others.</summary>
        internal Record Adopted(Local local) =>
            With(made =>
            {
                made.Local = local;
                made.Base = null;
                made.Dirty = true;
                made.Deleted = false;
                made.Dropped = Local ?? Dropped;
            });

        /// <summary>Returns whether ReadAsync returns these bytes, now or after a download.</summary>
        internal bool Has(string digest) =>
            new[] { Local, Local.Of(Remote), Offered }.Any(side => side != null && side.Sha256 == digest);

        /// <summary>The bytes that ReadAsync takes: an offer waits while this device's own bytes are pending or in
        /// a conflict.</summary>
        internal Local Unread => Idle ? Offered : null;

        /// <summary>Records that the game has read Offered, which may have arrived: it is sent before any write after
        /// it.</summary>
        internal Record TookOffered() =>
            Adopted(Offered).With(r =>
            {
                r.Offered = null;
                r.Sent = new Sent { Local = Offered };
            });

        /// <summary>Records that the server has Offered as `info`, which the game has not read.</summary>
        internal Record Placed(SaveInfo info) => With(r => r.Offered = null).Heard(info);

        /// <summary>Records that another device was first; Offered stays to be read.</summary>
        internal Record NotPlaced(Conflict error)
        {
            Record record = error.Code == "superseded" ? With(r => r.Offered = null) : this;
            return record.Heard(error.Current, error.Code == "deleted");
        }

        internal Record KeptMine() =>
            With(r =>
            {
                r.Spent = Dispute?.Copy;
                r.Base = Theirs;
                r.Dirty = true;
                r.Dispute = null;
            });

        internal Record KeptTheirs() =>
            GaveWay().With(r =>
            {
                r.Local = Local.Of(Theirs);
                r.Base = Theirs;
                r.Dirty = false;
                r.Deleted = Dispute != null && Dispute.Reason == "deleted";
                r.Dispute = null;
            });

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

        /// <summary>Keeps this device's bytes as Dropped, and as UnsentCopy if the server does not have them. The
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

        /// <summary>The hashes of all bytes that must stay on the disk.</summary>
        internal ISet<string> Bodies
        {
            get
            {
                Local copy = UnsentCopy?.Local;
                Local[] locals = { Local, Dropped, Offered, copy, Sent?.Local };
                SaveInfo[] infos = { Base, Remote, Dispute?.Base, Theirs };
                IEnumerable<string> mine = locals.Where(local => local != null).Select(local => local.Sha256);
                return new HashSet<string>(mine.Concat(infos.Where(i => i != null).Select(i => i.Sha256)));
            }
        }

        internal static object Info(SaveInfo info) => info?.ToJson();

        internal string ToJson() =>
            Json.Write(new Dictionary<string, object>
            {
                { "format", Format }, { "slot", Slot }, { "local", Local.ToJson(Local) }, { "base", Info(Base) },
                { "dirty", Dirty }, { "sent", Sent.ToJson(Sent) }, { "remote", Info(Remote) }, { "deleted", Deleted },
                { "dispute", Dispute.ToJson(Dispute) }, { "dropped", Local.ToJson(Dropped) }, { "spent", Info(Spent) },
                { "unsent_copy", Sent.ToJson(UnsentCopy) }, { "unlisted", Unlisted },
                { "offered", Local.ToJson(Offered) },
            });

        /// <summary>Parses the stored form. Throws FormatException, NotGamedException, InvalidCastException,
        /// KeyNotFoundException.</summary>
        internal static Record FromJson(byte[] text)
        {
            var value = (IDictionary<string, object>)Json.Parse(text);
            if (value == null || Members.Of<long>(value, "format") != Format)
                throw new FormatException("another format");
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
                // records of older versions of this client lack these
                UnsentCopy = Sent.FromJson(value.Find("unsent_copy")),
                Unlisted = (string)value.Find("unlisted"),
                Offered = Local.FromJson(value.Find("offered")),
            };
        }
    }

    // --- The disk ----------------------------------------------------------------------------------------------------

    /// <summary>A folder of one player at one server: `cursor`, `lock`, and for each slot a folder with `record` and
    /// bodies. A body is stored before the record that names it, and deleted after it, so that a crash never leaves a
    /// record without its bytes. Only this user can read the folder.</summary>
    sealed class Store : IDisposable
    {
        readonly string folder;
        readonly IDisposable held;

        /// <summary>Throws InUseException if another process or object has the folder open.</summary>
        internal Store(string folder)
        {
            this.folder = folder;
            Disk.PrivateFolder(Path.Combine(folder, "slots"));
            held = Disk.TryLock(Path.Combine(folder, "lock"));
            if (held == null)
                throw new InUseException(new Failure("in_use", "This game is running already, with the same saves."));
        }

        public void Dispose() => held.Dispose();

        /// <summary>Reads all records, by slot. Throws LocalDamagedException.</summary>
        internal SortedDictionary<string, Record> Records()
        {
            var found = new SortedDictionary<string, Record>(StringComparer.Ordinal);
            foreach (string place in Directory.GetDirectories(Path.Combine(folder, "slots")))
            {
                string path = Path.Combine(place, "record");
                byte[] text = Disk.Read(path);
                if (text == null)
                    continue;  // a crash interrupted the first write to it
                try
                {
                    found[Path.GetFileName(place)] = Record.FromJson(text);
                }
                catch (Exception e)
                {
                    if (!(e is FormatException || e is NotGamedException || e is InvalidCastException
                        || e is KeyNotFoundException))
                        throw;
                    throw new LocalDamagedException(new Failure("state_damaged",
                        path + " cannot be read; the files beside it are untouched.", e));
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

        /// <summary>Writes a body, on disk when it returns; returns its hash.</summary>
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

        /// <summary>Reads a body; returns null if it is missing or damaged.</summary>
        internal byte[] Load(string slot, string digest)
        {
            byte[] data = Disk.Read(Path.Combine(Of(slot), digest));
            return data != null && Saves.Hex(Saves.Hash(data)) == digest ? data : null;
        }

        internal void Discard(string slot, string digest) => Discard(Path.Combine(Of(slot), digest));

        static void Discard(string path) => Disk.Try(() => File.Delete(path));

        internal bool Has(string slot, SaveInfo info)
        {
            var file = new FileInfo(Path.Combine(Of(slot), info.Sha256));
            return file.Exists && file.Length == info.Size;
        }

        internal string Cursor => Disk.ReadText(Path.Combine(folder, "cursor"));

        internal void KeepCursor(string cursor) =>
            Disk.WriteWhole(Path.Combine(folder, "cursor"), Encoding.UTF8.GetBytes(cursor));

        /// <summary>Reads `name` of the player, and `adopted`: a text `slot/sha256` for each save that they have
        /// adopted from another player.</summary>
        Dictionary<string, object> About
        {
            get
            {
                string text = Disk.ReadText(Path.Combine(folder, "player"));
                try
                {
                    object value = text == null ? null : Json.Parse(text);
                    return value as Dictionary<string, object> ?? new Dictionary<string, object>();
                }
                catch (FormatException)
                {
                    return new Dictionary<string, object>();  // it has nothing that a save depends on
                }
            }
        }

        /// <summary>The player's name; null if it is not known.</summary>
        internal string Name => Members.Maybe<string>(About, "name");

        /// <summary>The saves of other players that this one has adopted.</summary>
        internal List<object> AdoptedBefore() => Members.List(About, "adopted");

        internal void KeepAbout(string name, object value)
        {
            Dictionary<string, object> about = About;
            about[name] = value;
            Disk.WriteWhole(Path.Combine(folder, "player"), Encoding.ASCII.GetBytes(Json.Write(about)));
        }

        string Of(string slot) => Path.Combine(folder, "slots", slot);
    }

    // --- The interface of a game -------------------------------------------------------------------------------------

    /// <summary>One slot, for a menu.</summary>
    public sealed partial class SyncStatus
    {
        /// <summary>This device has not received the server's first list yet.</summary>
        public const string Unknown = "unknown";

        /// <summary>Device and server have the same save.</summary>
        public const string InStep = "in_step";

        /// <summary>An upload or a download is pending.</summary>
        public const string Waiting = "waiting";

        /// <summary>Another device has saved, or deleted: ReadAsync returns the result.</summary>
        public const string Newer = "newer";

        /// <summary>This device and another have both changed the save: the player has to choose.</summary>
        public const string Conflict = "conflict";

        /// <summary>The server rejects the save: see Problem; the bytes are kept here.</summary>
        public const string Refused = "refused";

        /// <summary>1 to 64 of a-z 0-9 . _ -</summary>
        public string Slot { get; internal set; }

        /// <summary>One of the texts above.</summary>
        public string State { get; internal set; }

        /// <summary>The size in bytes of the save that ReadAsync would return; the next two members describe it, too.
        /// Null if it is deleted.</summary>
        public long? Size { get; internal set; }

        /// <summary>The `meta` of the save; empty without any.</summary>
        public IDictionary<string, object> Meta { get; internal set; }

        /// <summary>RFC 3339, to show.</summary>
        public string Modified { get; internal set; }

        /// <summary>The conflict copies at the server, of any device: use GamedClient.RestoreAsync or
        /// DismissAsync.</summary>
        public IList<long> Copies { get; internal set; }

        /// <summary>The reason why the server rejects the save, or null.</summary>
        public GamedError Problem { get; internal set; }

        internal bool Shown => Size != null || (State != InStep && State != Unknown);
    }

    /// <summary>A save of another player, for a menu.</summary>
    public sealed partial class OtherSave
    {
        /// <summary>The name of the slot.</summary>
        public string Slot { get; internal set; }

        /// <summary>Bytes.</summary>
        public long Size { get; internal set; }

        /// <summary>The game's own description of it.</summary>
        public IDictionary<string, object> Meta { get; internal set; }

        /// <summary>RFC 3339; only show it to the player.</summary>
        public string Modified { get; internal set; }
    }

    /// <summary>Another player of this server whose saves are on this device; only the person knows whether they are
    /// theirs.</summary>
    public sealed partial class OtherPlayer
    {
        /// <summary>For <see cref="Sync.AdoptAsync"/>.</summary>
        public string PlayerId { get; internal set; }

        /// <summary>The name at the last sign-in here; null if that is not known.</summary>
        public string Name { get; internal set; }

        /// <summary>That of the newest save; only show it to the player.</summary>
        public string Modified { get; internal set; }

        /// <summary>What the present player neither has nor has adopted.</summary>
        public IList<OtherSave> Saves { get; internal set; }
    }

    /// <summary>One side of a conflict: its bytes, and their description for the player.</summary>
    public sealed partial class SyncSide
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

    /// <summary>Both sides have changed <see cref="BaseAsync"/>. Nothing of the slot is sent until the game calls a
    /// method; play may continue.</summary>
    public sealed partial class SyncConflict
    {
        readonly Sync sync;

        internal SyncConflict(Sync sync, string slot, Dispute dispute)
        {
            this.sync = sync;
            Slot = slot;
            Shown = dispute;
        }

        internal Dispute Shown { get; private set; }

        /// <summary>The slot of the save.</summary>
        public string Slot { get; private set; }

        /// <summary>"changed"; "deleted" at the server; "lost": the server does not know this save (erased, or an old
        /// backup).</summary>
        public string Reason => Shown.Reason;

        /// <summary>The save that both sides continued, or null.</summary>
        public SaveInfo BaseInfo => Shown.Base;

        /// <summary>The server's save, or null.</summary>
        public SaveInfo Current => Shown.Current;

        /// <summary>The server's conflict copy of this device's side, or null.</summary>
        public SaveInfo Copy => Shown.Copy;

        /// <summary>Reads this device's side, as it is now; returns null if it was deleted here.</summary>
        public Task<SyncSide> MineAsync() => sync.MineAsync(Slot);

        /// <summary>Reads the server's side; returns null if it is deleted or lost. May send a request.</summary>
        public Task<SyncSide> TheirsAsync(CancellationToken cancel = default(CancellationToken)) =>
            sync.SideAsync(Slot, Current, cancel);

        /// <summary>Reads the save that both sides continued; returns null if there was none or it is not
        /// kept.</summary>
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

        /// <summary>Writes this device's side over theirs, which stays in the server's history. Throws
        /// ConflictOverException.</summary>
        public Task KeepMineAsync() => sync.AnswerAsync(this, record => record.KeptMine());

        /// <summary>Continues from theirs: read it. The server keeps this device's side as a conflict copy: the next
        /// SendAsync sends the bytes that the game has saved since the conflict began. They also stay here, see
        /// Sync.LostAsync. Throws ConflictOverException.</summary>
        public async Task KeepTheirsAsync(CancellationToken cancel = default(CancellationToken))
        {
            await TheirsAsync(cancel).ConfigureAwait(false);
            await sync.AnswerAsync(this, record => record.KeptTheirs()).ConfigureAwait(false);
        }

        /// <summary>Continues from new bytes that combine both. Throws ConflictOverException.</summary>
        public Task MergedAsync(byte[] data, IDictionary<string, object> meta = null) =>
            sync.MergedAsync(this, data, meta);
    }

    sealed class SlotProblem
    {
        internal GamedError Error;

        /// <summary>The time of the next try by the monotonic clock, in seconds.</summary>
        internal double Due;

        /// <summary>True if a retry cannot help: the server rejected the write, or a file is damaged.</summary>
        internal bool Final => (Error.Status >= 400 && Error.Status < 500) || Error is LocalDamagedException;
    }

    /// <summary>A signal that stays set until it is cleared.</summary>
    sealed class Bell
    {
        volatile TaskCompletionSource<bool> rung = Fresh();

        static TaskCompletionSource<bool> Fresh() =>
            new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);

        internal Task Rung => rung.Task;

        /// <summary>Returns whether it was clear.</summary>
        internal bool Ring() => rung.TrySetResult(true);

        internal void Clear()
        {
            if (rung.Task.IsCompleted)
                rung = Fresh();
        }
    }

    /// <summary>One player's saves on this device, and their exchange with the server.</summary>
    public sealed partial class Sync : IDisposable
    {
        const int WaitSeconds = 25;

        /// <summary>A timer of .NET takes no more than 49 days.</summary>
        const double LongestSeconds = 86400;

        /// <summary>The longest time that Dispose waits until pending saves are sent.</summary>
        const double ExitSeconds = 5;

        /// <summary>The pause before retrying a refused write, unless the server sends another: the owner can raise a
        /// limit meanwhile.</summary>
        const double AgainSeconds = 300;

        /// <summary>The largest number of writes that one SendAsync sends for a slot that keeps changing.</summary>
        const int Steps = 4;

        /// <summary>The server limits the rate of requests for more versions.</summary>
        const int PageVersions = 32;

        /// <summary>The folder for saves from before the first sign-in here. FolderName never returns this name for a
        /// player.</summary>
        const string Unowned = "not.signed.in";

        /// <summary>The last Dispose of each place, also one that has ended.</summary>
        static readonly ConcurrentDictionary<string, Task> Closing = new ConcurrentDictionary<string, Task>();

        readonly GamedClient client;
        readonly string place;
        Store store;

        /// <summary>Held for each read and change of the records, also while the disk writes; never on a thread of the
        /// game, nor while a request waits for the network.</summary>
        readonly object gate = new object();

        /// <summary>Held for the state of the loop of Start, and for `announced`.</summary>
        readonly object loop = new object();

        readonly object turn = new object();
        Task last = Task.FromResult(true);
        readonly SemaphoreSlim sending = new SemaphoreSlim(1);
        readonly Bell bell = new Bell();

        readonly CancellationTokenSource closing = new CancellationTokenSource();

        /// <summary>The loop of Start, until it ends.</summary>
        Task running;

        /// <summary>The callback that was passed to Start.</summary>
        Action<SyncStatus> report = status => { };

        /// <summary>How often Start or RunAsync was called.</summary>
        int starts;

        /// <summary>That number when the last SendAsync began.</summary>
        int sendStarts;

        /// <summary>That number at the beginning of the last SendAsync that has ended: Problem does not concern later
        /// starts.</summary>
        int triedStarts;

        /// <summary>Rings when a SendAsync has ended, or this Sync.</summary>
        readonly Bell ended = new Bell();

        readonly Stopwatch clock = Stopwatch.StartNew();
        readonly Dictionary<string, SlotProblem> problems = new Dictionary<string, SlotProblem>();

        /// <summary>The problems of each slot's UnsentCopy, apart from the others: they must not delay writes or
        /// downloads.</summary>
        readonly Dictionary<string, SlotProblem> copyProblems = new Dictionary<string, SlotProblem>();

        SortedDictionary<string, Record> records;
        Dictionary<string, string> reported;
        volatile string cursor;
        volatile GamedError lastProblem;

        /// <summary>The Problem of which the game got the last event.</summary>
        GamedError announced;

        volatile bool closed;

        /// <summary>The whole list whose pages are arriving.</summary>
        WholeList whole;

        /// <summary>True once a SendAsync of this Sync has succeeded.</summary>
        volatile bool reached;

        Sync(GamedClient client, Credential credential, string place)
        {
            this.client = client;
            this.place = place;
            Enter(credential == null ? "" : credential.PlayerId);
            try
            {
                if (credential != null)
                {
                    NoteName(credential);
                    AdoptLeft();
                }
            }
            catch
            {
                store.Dispose();
                throw;
            }
            reported = Statuses().Where(s => s.Shown && (s.State == SyncStatus.InStep || s.State == SyncStatus.Waiting))
                .ToDictionary(s => s.Slot, LookOf);
        }

        /// <summary>Opens the folder of a player, or changes nothing.</summary>
        void Enter(string playerId)
        {
            var opened = new Store(Path.Combine(place, FolderName(playerId)));
            try
            {
                SortedDictionary<string, Record> found = opened.Records();
                cursor = opened.Cursor;
                records = found;
            }
            catch
            {
                opened.Dispose();
                throw;
            }
            PlayerId = playerId;
            store = opened;
        }

        /// <summary>
        /// Opens the saves of the player who is signed in; sends no request. `folder` replaces the one beside the
        /// credential. Before the first sign-in at this server the saves wait on this device: the first SendAsync after
        /// the sign-in, or the first Sync, adopts them for the player. Throws SignInRequiredException after a sign-out,
        /// InUseException, LocalDamagedException.
        /// </summary>
        public static Task<Sync> OpenAsync(GamedClient client, string folder = null,
            CancellationToken cancel = default(CancellationToken)) =>
            Errors.OnDiskAsync(Task.Run(async () =>
            {
                folder = folder ?? Path.Combine(client.Folder, "sync");
                string place = Path.GetFullPath(Path.Combine(folder, client.Place));
                Task closing;
                if (Closing.TryGetValue(place, out closing))
                    await EitherAsync(closing, LongestSeconds, cancel).ConfigureAwait(false);
                cancel.ThrowIfCancellationRequested();
                Credential credential = await client.CredentialAsync(cancel).ConfigureAwait(false);
                if (credential == null && HasPlayers(place))
                    throw Errors.SignedOut();
                return new Sync(client, credential, place);
            }, cancel));

        /// <summary>Returns whether a player has signed in here before.</summary>
        static bool HasPlayers(string place) =>
            Directory.Exists(place)
                && Directory.GetDirectories(place).Any(path => Path.GetFileName(path) != Unowned);

        /// <summary>The player; empty before the first sign-in.</summary>
        public string PlayerId { get; private set; }

        /// <summary>The error of the last SendAsync, also of the loop; null if it succeeded: for a display that says
        /// "offline".</summary>
        public GamedError Problem => lastProblem;

        /// <summary>The older name of <see cref="Problem"/>.</summary>
        public GamedError Trouble => lastProblem;

        /// <summary>Calls CloseAsync with 5 seconds in the background; the process ends after it. An OpenAsync of the
        /// same saves waits for it.</summary>
        public void Dispose()
        {
            Task close = CloseAsync(ExitSeconds);
            Closing.AddOrUpdate(place, close, (key, other) => Task.WhenAll(other, close));
            // Not of the pool: a process does not wait for the pool's threads, and could lose a write that has begun.
            new Thread(() => Task.WaitAny(close)) { Name = "gamed: closing" }.Start();
        }

        /// <summary>Releases the folder for other processes after all earlier calls. Ends a wait at the server. After
        /// Start it waits at most `within` seconds until pending saves are sent, or until the server cannot be reached;
        /// the others stay pending.</summary>
        public Task CloseAsync(double within = 0)
        {
            Task written = WrittenAsync();
            return Task.Run(() => CloseHereAsync(written, within));
        }

        async Task CloseHereAsync(Task written, double within)
        {
            await written.ConfigureAwait(false);
            if (running != null)
                await UntilAsync(NeedsNoLonger, within, CancellationToken.None).ConfigureAwait(false);
            try
            {
                closing.Cancel();
            }
            catch (AggregateException)
            {
                // an exception of a function of the game that heeds the cancel must not keep the folder locked
            }
            await InTurn(() =>
            {
                if (!closed)
                    store.Dispose();
                closed = true;
                return ended.Ring();
            }).ConfigureAwait(false);
        }

        /// <summary>Returns whether SendAsync has nothing more to send, or cannot send it now.</summary>
        bool NeedsNoLonger()
        {
            lock (gate)
            {
                var tried = records.Where(r => !problems.ContainsKey(r.Key) && r.Value.Dispute == null);
                return closed || (Failed && !LacksSpace()) || !tried.Any(r => r.Value.Dirty || r.Value.Sent != null);
            }
        }

        /// <summary>Returns whether the last SendAsync only could not store another device's save here: all writes are
        /// still sent then.</summary>
        bool LacksSpace()
        {
            lock (gate)
                return lastProblem?.Code == "local_disk"
                    && problems.Values.Any(problem => problem.Error.Code == "local_disk");
        }

        /// <summary>Waits for the first SendAsync, at most `within` seconds; returns whether this device has ever
        /// received a list. Call it after RunAsync was started and before the first ReadAsync. False: this device was
        /// never online with this player; ReadAsync throws NotKnownException. A device that knows its saves does not
        /// wait for a server that does not respond.</summary>
        public Task<bool> ReadyAsync(double within = 5, CancellationToken cancel = default(CancellationToken)) =>
            Task.Run(async () =>
            {
                await UntilAsync(NeedsNoWait, within, cancel).ConfigureAwait(false);
                return cursor != null;
            }, cancel);

        /// <summary>Waits until `done` at the end of a SendAsync, at most `within` seconds.</summary>
        async Task UntilAsync(Func<bool> done, double within, CancellationToken cancel)
        {
            double end = Now() + within;
            for (Task rung = ended.Rung; !done() && Now() < end; rung = ended.Rung)
            {
                await EitherAsync(rung, end - Now(), cancel).ConfigureAwait(false);
                cancel.ThrowIfCancellationRequested();
            }
        }

        /// <summary>Waits for `work`, unless it is null, for the time, or for the cancel; throws for none.</summary>
        static async Task EitherAsync(Task work, double seconds, CancellationToken cancel)
        {
            using (CancellationTokenSource enough = CancellationTokenSource.CreateLinkedTokenSource(cancel))
            {
                Task time = Delay(Math.Max(0, Math.Min(seconds, LongestSeconds)), enough.Token);
                await (work == null ? Task.WhenAny(time) : Task.WhenAny(time, work)).ConfigureAwait(false);
                enough.Cancel();
            }
        }

        /// <summary>Returns whether waiting for SendAsync would not help ReadyAsync.</summary>
        bool NeedsNoWait()
        {
            lock (gate)
                return reached || closed || (Failed && (cursor != null || Ends(lastProblem)));
        }

        /// <summary>True if the last SendAsync failed, and Start was not called since to overcome that.</summary>
        bool Failed => lastProblem != null && !(Ends(lastProblem) && triedStarts != starts);

        /// <summary>Returns whether the error ends the loop: waiting does not help.</summary>
        static bool Ends(GamedError error) => error is SignInRequiredException || error is PlayerBlockedException;

        /// <summary>Raises the events of GamedNet.cs, if the game has that file.</summary>
        partial void OnChanged(SyncStatus status);
        partial void OnProblem(GamedError before, GamedError now);

        void NoteEnd(GamedError error)
        {
            lock (loop)
            {
                lastProblem = error;
                triedStarts = sendStarts;
            }
            reached = reached || error == null;
            ended.Ring();
            ended.Clear();
        }

        /// <summary>Tells the game about a changed Problem, once it may call SendAsync.</summary>
        void TellProblem()
        {
            GamedError before, now;
            lock (loop)
            {
                before = announced;
                now = lastProblem;
                if (now != null && now.Code == "closed")  // by the game
                    return;
                announced = now;
            }
            Tell(() => OnProblem(before, now));
        }

        /// <summary>Calls a function of the game. Its exception must not end the exchange of saves: a thread of the
        /// pool throws it, as that of a timer's function.</summary>
        static void Tell(Action call)
        {
            try
            {
                call();
            }
            catch (Exception e)
            {
                ExceptionDispatchInfo thrown = ExceptionDispatchInfo.Capture(e);
                ThreadPool.QueueUserWorkItem(ignored => thrown.Throw());
            }
        }

        // -- the game's side: this device only, no network --

        /// <summary>Reads the newest bytes on this device; the game's next write is based on them. Returns null if the
        /// slot was never written. Throws NotKnownException before the first list (see ReadyAsync), DeletedException,
        /// LocalDamagedException, and UnreachableException while a listed save has not been downloaded. In a conflict
        /// the result is this device's side. Etag is empty for bytes that the server does not have yet.</summary>
        public Task<Save> ReadAsync(string slot) => InTurn(() => Look(slot, true));

        /// <summary>Reads the same bytes, but does not base the next write on them: for a preview, or a copy
        /// elsewhere.</summary>
        public Task<Save> PeekAsync(string slot) => InTurn(() => Look(slot, false));

        /// <summary>Writes bytes to this device's disk, based on the version that the game last read or wrote here. The
        /// next SendAsync sends them. Newer bytes replace older ones that have not been sent. Do not change `data`
        /// meanwhile. Throws LocalDamagedException if the disk cannot store them.</summary>
        public Task WriteAsync(string slot, byte[] data, IDictionary<string, object> meta = null,
            string contentType = GamedClient.Bytes)
        {
            Saves.PathOf(slot);
            Dictionary<string, object> plain = Saves.Plain(meta);
            return InTurn(() =>
            {
                Local local = Kept(slot, data, contentType, plain);
                Change(slot, record => record.Wrote(local));
                return bell.Ring();
            });
        }

        /// <summary>Deletes the version that the game last read or wrote; the server can restore it for a while. If
        /// another device has saved a newer one, it is a conflict. With `includingNewer` that one is deleted, too: only
        /// for a player who has seen it. Throws NotKnownException before the first list, unless the game has written
        /// this slot here.</summary>
        public Task DeleteAsync(string slot, bool includingNewer = false)
        {
            Saves.PathOf(slot);
            return InTurn(() =>
            {
                if (IsUnknown(RecordOf(slot)))
                    throw new NotKnownException();
                Change(slot, record => record.RemovedHere(includingNewer));
                return bell.Ring();
            });
        }

        /// <summary>Lists the status of every slot that has bytes or a pending change.</summary>
        public Task<IList<SyncStatus>> SlotsAsync() =>
            InTurn(() => (IList<SyncStatus>)Statuses().Where(status => status.Shown).ToList());

        /// <summary>Returns the status of a slot, also of an empty one.</summary>
        public Task<SyncStatus> StatusAsync(string slot) => InTurn(() => StatusOf(slot));

        /// <summary>Ends once all earlier calls have ended: their saves are on the disk.</summary>
        internal Task WrittenAsync() => InTurn(() => true);

        /// <summary>Lists the conflicts in which the player has to choose.</summary>
        public Task<IList<SyncConflict>> ConflictsAsync() =>
            InTurn(() => (IList<SyncConflict>)records.Values.Where(record => record.Dispute != null)
                .Select(record => new SyncConflict(this, record.Slot, record.Dispute)).ToList());

        /// <summary>Reads the bytes that KeepTheirsAsync or a delete, also on this device, last replaced here: to undo
        /// the choice.</summary>
        public Task<SyncSide> LostAsync(string slot) => InTurn(() => Side(slot, record => record.Dropped));

        /// <summary>The older name of LostAsync.</summary>
        public Task<SyncSide> DroppedAsync(string slot) => LostAsync(slot);

        /// <summary>Lists the other players of this server whose saves are on this device: to ask the player before
        /// AdoptAsync. They are of another person, or of this one, whom a server that was set up anew has given another
        /// id. Saves that the player has as well or has adopted are left out, and players whose saves another process
        /// has open.</summary>
        public Task<IList<OtherPlayer>> OtherPlayersAsync() =>
            InTurn(() =>
            {
                Open();
                List<object> known = store.AdoptedBefore();
                return (IList<OtherPlayer>)OtherFolders().Select(name => OtherIn(name, known))
                    .Where(other => other != null).ToList();
            });

        OtherPlayer OtherIn(string name, List<object> known)
        {
            try
            {
                return Errors.OnDisk(() =>
                {
                    using (var left = new Store(Path.Combine(place, name)))
                    {
                        List<OtherSave> saves = LeftIn(left)
                            .Where(each => !known.Contains(each.Key + "/" + each.Value.Sha256))
                            .Select(each => new OtherSave
                            {
                                Slot = each.Key, Size = each.Value.Size, Meta = Saves.Plain(each.Value.Meta),
                                Modified = each.Value.Modified,
                            }).ToList();
                        return saves.Count == 0 ? null : new OtherPlayer
                        {
                            PlayerId = name, Name = left.Name, Saves = saves,
                            Modified = saves.Select(save => save.Modified).OrderBy(at => at, StringComparer.Ordinal)
                                .Last(),
                        };
                    }
                });
            }
            catch (GamedError error)
            {
                if (error is InUseException || error is LocalDamagedException)
                    return null;
                throw;
            }
        }

        /// <summary>Copies saves of another player, all that OtherPlayersAsync lists or `slots`; returns the slots that
        /// were copied. Call it only after the player has said that the saves are theirs. They replace nothing: each is
        /// `newer` until ReadAsync returns it, and a write of the game meanwhile does not replace it. The next
        /// SendAsync sends those whose slot is empty at the server; elsewhere a conflict follows the ReadAsync. A slot
        /// with a pending write or a conflict is left out: call it again later. The other player's saves stay here.
        /// Throws InUseException, LocalDamagedException, and SignInRequiredException before the sign-in.</summary>
        public Task<IList<string>> AdoptAsync(string playerId, IEnumerable<string> slots = null)
        {
            HashSet<string> chosen = slots == null ? null : new HashSet<string>(slots);
            return InTurn(() =>
            {
                Open();
                if (PlayerId == "")
                    throw Errors.SignedOut();
                IList<string> done = new List<string>();
                if (!OtherFolders().Contains(playerId))
                    return done;
                List<object> known = store.AdoptedBefore();
                try
                {
                    using (var left = new Store(Path.Combine(place, playerId)))
                        foreach (KeyValuePair<string, Local> each in LeftIn(left))
                        {
                            bool wanted = chosen != null ? chosen.Contains(each.Key)
                                : !known.Contains(each.Key + "/" + each.Value.Sha256);
                            if (wanted && RecordOf(each.Key).Idle && Offer(left, each.Key, each.Value))
                                done.Add(each.Key);
                        }
                }
                finally
                {
                    bell.Ring();
                }
                return done;
            });
        }

        /// <summary>Copies a save; returns false if its file is damaged.</summary>
        bool Offer(Store left, string slot, Local local)
        {
            byte[] data = left.Load(slot, local.Sha256);
            if (data == null)
                return false;
            store.Add(slot, data);
            Change(slot, record => record.With(made => made.Offered = local));
            return true;
        }

        IEnumerable<string> OtherFolders()
        {
            string own = FolderName(PlayerId);
            return Directory.GetDirectories(place).Select(Path.GetFileName).Where(name => name != own
                && name != Unowned).OrderBy(name => name, StringComparer.Ordinal).ToList();
        }

        /// <summary>Returns what `ReadAsync` would return in each slot of `left`, without what this player has
        /// already.</summary>
        List<KeyValuePair<string, Local>> LeftIn(Store left)
        {
            var found = new List<KeyValuePair<string, Local>>();
            foreach (KeyValuePair<string, Record> each in left.Records())
            {
                Record record = each.Value;
                if (record.Slot != each.Key || !Saves.IsSlot(each.Key))
                    continue;
                bool arrived = record.Newer && record.Remote != null && left.Has(record.Slot, record.Remote);
                Local local = record.Unread ?? (arrived ? record.Took().Local : record.Local);
                if (local != null && !RecordOf(each.Key).Has(local.Sha256))
                    found.Add(new KeyValuePair<string, Local>(each.Key, local));
            }
            return found;
        }

        internal Task<SyncSide> MineAsync(string slot) => InTurn(() => Side(slot, record => record.Local));

        /// <summary>Runs `work` on another thread, after all earlier work, and holds the gate meanwhile.</summary>
        Task<T> InTurn<T>(Func<T> work)
        {
            lock (turn)
            {
                Task<T> next = last.ContinueWith(before =>
                {
                    lock (gate)
                        return Errors.OnDisk(work);
                }, CancellationToken.None, TaskContinuationOptions.None, TaskScheduler.Default);
                last = next;
                return next;
            }
        }

        Save Look(string slot, bool take)
        {
            Saves.PathOf(slot);
            Record record = RecordOf(slot);
            if (IsUnknown(record))
                throw new NotKnownException();
            if (record.Offered != null && store.Load(slot, record.Offered.Sha256) == null)
                record = Change(slot, r => r.With(made => made.Offered = null));  // the other player still has it
            Record seen = Seen(record);
            if (seen.Local == null && record.Newer && record.Remote != null)
                throw new UnreachableException("not_arrived", "This save has not arrived on this device yet.");
            byte[] data = seen.Local == null ? null : BytesOf(slot, seen.Local);
            if (take)
                Change(slot, r => seen);
            if (seen.Local == null && seen.Deleted)
                throw new DeletedException(new Failure("deleted", "This save was deleted."));
            if (seen.Local == null)
                return null;
            string etag = seen.Dirty || seen.Base == null ? "" : seen.Base.Etag;
            return new Save
            {
                Etag = etag, Data = data, ContentType = seen.Local.ContentType, Meta = Saves.Plain(seen.Local.Meta),
            };
        }

        byte[] BytesOf(string slot, Local local)
        {
            byte[] data = store.Load(slot, local.Sha256);
            if (data == null)
            {
                Record record = RecordOf(slot);
                if (!record.Dirty && record.Base != null)
                    store.Discard(slot, local.Sha256);  // the next SendAsync fetches it again
                throw Damaged(slot);
            }
            return data;
        }

        static LocalDamaged Damaged(string slot) =>
            new LocalDamagedException(new Failure("local_damaged",
                "The file of " + slot + " on this device is damaged or gone."));

        /// <summary>Returns whether the server may have a save of this slot that this device has not listed.</summary>
        bool IsUnknown(Record record)
        {
            bool known = record.Local != null || record.Base != null || record.Remote != null || record.Unread != null;
            return cursor == null && !known;
        }

        /// <summary>Returns whether a newer version has been downloaded.</summary>
        bool Arrived(Record record) => record.Newer && (record.Remote == null || store.Has(record.Slot, record.Remote));

        /// <summary>Returns the record after a ReadAsync.</summary>
        Record Seen(Record record)
        {
            if (record.Unread != null)
                return record.TookOffered();
            return Arrived(record) ? record.Took() : record;
        }

        List<SyncStatus> Statuses() => records.Keys.Select(StatusOf).ToList();

        SyncStatus StatusOf(string slot)
        {
            Record record = RecordOf(slot);
            SlotProblem problem = problems.Find(slot), visible = problem ?? copyProblems.Find(slot);
            Local shown = Seen(record).Local;
            return new SyncStatus
            {
                Slot = slot,
                State = State(record, problem),
                Size = shown?.Size,
                Meta = Saves.Plain(shown?.Meta),
                Modified = shown == null ? "" : shown.Modified,
                Copies = record.Remote == null ? new List<long>() : record.Remote.Conflicts,
                Problem = visible?.Error,
            };
        }

        string State(Record record, SlotProblem problem)
        {
            if (record.Dispute != null)
                return SyncStatus.Conflict;
            if (problem != null)
                return SyncStatus.Refused;
            if (record.Unread != null || Arrived(record))
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
            Local local = which(RecordOf(slot));
            if (local == null)
                return null;
            byte[] data = store.Load(slot, local.Sha256);
            if (data == null)
                throw Damaged(slot);
            return SideOf(data, local);
        }

        /// <summary>Reads a side from this device, else from the server.</summary>
        internal Task<SyncSide> SideAsync(string slot, SaveInfo info, CancellationToken cancel) =>
            Errors.OnDiskAsync(Task.Run(async () =>
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
            }, cancel));

        static SyncSide SideOf(byte[] data, Local local) =>
            new SyncSide
            {
                Data = data, ContentType = local.ContentType, Meta = Saves.Plain(local.Meta), Modified = local.Modified,
            };

        /// <summary>Stores the bytes; returns their Local.</summary>
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
                Local like = RecordOf(shown.Slot).Local ?? Local.Of(shown.Current);
                string contentType = like == null ? GamedClient.Bytes : like.ContentType;
                Local local = Kept(shown.Slot, data, contentType, plain);
                return Answered(shown, record => record.Merged(local));
            });
        }

        internal Task AnswerAsync(SyncConflict shown, Func<Record, Record> how) => InTurn(() => Answered(shown, how));

        bool Answered(SyncConflict shown, Func<Record, Record> how)
        {
            Dispute dispute = RecordOf(shown.Slot).Dispute;
            if (dispute == null || !Json.Same(Dispute.ToJson(dispute), Dispute.ToJson(shown.Shown)))
                throw new ConflictOverException();
            Change(shown.Slot, how);
            return bell.Ring();
        }

        Record RecordOf(string slot)
        {
            lock (gate)
                return records.Find(slot) ?? new Record { Slot = slot };
        }

        /// <summary>Changes a record, on disk when it returns.</summary>
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
                    if (before.Offered != null && after.Offered == null)
                        NoteAdopted(slot + "/" + before.Offered.Sha256);
                }
                return after;
            }
        }

        /// <summary>Leaves a save out of OtherPlayersAsync from now on: the game has read it, or the server has it. It
        /// is only listed again if this fails.</summary>
        void NoteAdopted(string save) =>
            Disk.Try(() =>
            {
                List<object> known = store.AdoptedBefore();
                if (!known.Contains(save))
                    store.KeepAbout("adopted", known.Concat(new object[] { save }).ToList());
            });

        void Open()
        {
            if (closed)
                throw Closed();
        }

        static InUseException Closed() =>
            new InUseException(new Failure("closed", "The saves of this device were closed."));

        // -- the server's side --

        /// <summary>Requests the changes, sends pending writes, downloads newer saves; returns the statuses that have
        /// changed. Throws errors that concern the server or the player (UnreachableException, SignInRequiredException,
        /// ...); one that concerns a slot is in its status. After a failure, or the end of the process, call it again:
        /// nothing is lost.</summary>
        public Task<IList<SyncStatus>> SendAsync(CancellationToken cancel = default(CancellationToken)) =>
            Task.Run(async () =>
            {
                await SendOnceAsync(cancel).ConfigureAwait(false);
                IList<SyncStatus> news = News();
                foreach (SyncStatus status in news)
                    Tell(() => OnChanged(status));
                return news;
            }, cancel);

        /// <summary>The older name of SendAsync.</summary>
        public Task<IList<SyncStatus>> PumpAsync(CancellationToken cancel = default(CancellationToken)) =>
            SendAsync(cancel);

        async Task SendOnceAsync(CancellationToken cancel)
        {
            ExceptionDispatchInfo failure = null;
            await sending.WaitAsync(cancel).ConfigureAwait(false);
            try
            {
                lock (loop)
                    sendStarts = starts;
                await Errors.OnDiskAsync(UntilClosedAsync(SendHereAsync, cancel)).ConfigureAwait(false);
                NoteEnd(null);
            }
            catch (GamedError error)
            {
                NoteEnd(error);
                failure = ExceptionDispatchInfo.Capture(error);
            }
            finally
            {
                sending.Release();
            }
            TellProblem();
            failure?.Throw();
        }

        /// <summary>Awaits `work`, which the end of this Sync cancels, too; throws InUseException then.</summary>
        async Task<T> UntilClosedAsync<T>(Func<CancellationToken, Task<T>> work, CancellationToken cancel)
        {
            using (CancellationTokenSource both =
                CancellationTokenSource.CreateLinkedTokenSource(cancel, closing.Token))
                try
                {
                    return await work(both.Token).ConfigureAwait(false);
                }
                catch (OperationCanceledException)
                {
                    cancel.ThrowIfCancellationRequested();
                    if (!closing.IsCancellationRequested)
                        throw;  // of a function of the game
                    throw Closed();
                }
        }

        /// <summary>Adopts the saves from before the sign-in, unless another process has them open.</summary>
        void AdoptLeft()
        {
            string folder = Path.Combine(place, Unowned);
            if (!Directory.Exists(folder))
                return;
            try
            {
                using (var left = new Store(folder))
                    AdoptAll(left, left.Records());
            }
            catch (InUseException)
            {
            }
        }

        /// <summary>Adopts the saves of `left`, which keeps those of slots that have a pending write here, and damaged
        /// files.</summary>
        void AdoptAll(Store left, SortedDictionary<string, Record> theirs)
        {
            foreach (KeyValuePair<string, Record> each in theirs)
            {
                Record mine = RecordOf(each.Key);
                Local local = each.Value.Local;
                if (local != null && !Local.Same(mine.Local, local))
                {
                    byte[] data = left.Load(each.Key, local.Sha256);
                    if (data == null || !mine.Idle)
                        continue;
                    store.Add(each.Key, data);
                    Change(each.Key, record => record.Adopted(local));
                }
                left.Forget(each.Key);
            }
        }

        /// <summary>Keeps the player's name beside the saves: it has to outlast the credential, for
        /// OtherPlayersAsync.</summary>
        void NoteName(Credential credential) =>
            Disk.Try(() =>
            {
                string name = credential.PlayerName;
                if (name != null && name != store.Name)
                    store.KeepAbout("name", name);
            });

        /// <summary>Opens the player's saves once a player has signed in, and adopts the earlier ones.</summary>
        async Task OwnAsync(CancellationToken cancel)
        {
            Credential credential = await client.CredentialAsync(cancel).ConfigureAwait(false);
            if (credential == null)
                throw Errors.SignedOut();
            lock (gate)
            {
                Open();
                Store left = store;
                SortedDictionary<string, Record> theirs = records;
                Enter(credential.PlayerId);
                using (left)
                {
                    AdoptAll(left, theirs);
                    NoteName(credential);
                }
            }
        }

        async Task<bool> SendHereAsync(CancellationToken cancel)
        {
            if (PlayerId == "")
                await OwnAsync(cancel).ConfigureAwait(false);
            GamedClient only = client.Only(PlayerId, 1);
            await HearAsync(only, cancel).ConfigureAwait(false);
            foreach (string slot in Known())
            {
                await SendOfferedAsync(only, slot, cancel).ConfigureAwait(false);
                await SendCopyAsync(only, slot, cancel).ConfigureAwait(false);
                for (int step = 0; step < Steps; step++)
                    if (!await SendSlotAsync(only, slot, cancel).ConfigureAwait(false))
                        break;
                await DismissAsync(only, slot, cancel).ConfigureAwait(false);
            }
            foreach (string slot in Known())
                await FetchAsync(only, slot, cancel).ConfigureAwait(false);
            lock (gate)
            {
                SlotProblem full = problems.Values.FirstOrDefault(problem => problem.Error.Code == "local_disk");
                if (full != null)  // while a save of another device does not fit here
                    throw new LocalDamagedException(new Failure("local_disk", full.Error.Detail));
            }
            return true;
        }

        /// <summary>Calls SendAsync whenever a change is pending here or at the server, until `stop`; calls `changed`
        /// on threads of the pool with each changed status. Throws errors that waiting cannot end:
        /// SignInRequiredException, PlayerBlockedException, InUseException once this Sync is closed, an exception of
        /// `changed`; run it again after a sign-in. Other errors are in Problem until a retry succeeds.</summary>
        public Task RunAsync(Action<SyncStatus> changed = null,
            CancellationToken stop = default(CancellationToken))
        {
            lock (loop)
                starts++;
            return Task.Run(() => RunHereAsync(changed ?? (status => { }), stop));
        }

        /// <summary>Calls RunAsync in the background, until this Sync is closed; an error that ends it earlier is in
        /// Problem. After such an end call it again, once a player has signed in. While it works, a further call only
        /// replaces `changed`, if it has one. An exception of `changed` does not end it: a thread of the pool throws
        /// it.</summary>
        public void Start(Action<SyncStatus> changed = null)
        {
            lock (loop)
            {
                Open();
                report = changed ?? report;
                starts++;
                if (running == null)
                    running = Task.Run(() => RunUntilClosedAsync());
            }
        }

        /// <summary>Runs again after a Start that came during the SendAsync that ended the loop: its error is an older
        /// sign-in's.</summary>
        async Task RunUntilClosedAsync()
        {
            for (bool more = true; more;)
            {
                bool failed = false;
                try
                {
                    await RunAsync(status => Tell(() => report(status)), closing.Token).ConfigureAwait(false);
                }
                catch (GamedError)
                {
                    // the error is in Problem
                }
                catch (Exception e)
                {
                    failed = true;
                    NoteEnd(new GamedException(new Failure("callback_failed", "The game failed: " + e.Message, e)));
                    TellProblem();
                }
                lock (loop)
                {
                    more = !failed && !closing.IsCancellationRequested && triedStarts != starts;
                    if (!more)
                        running = null;
                }
            }
        }

        async Task RunHereAsync(Action<SyncStatus> changed, CancellationToken stop)
        {
            using (CancellationTokenSource over = CancellationTokenSource.CreateLinkedTokenSource(stop, closing.Token))
            {
                Task listening = Task.Run(() => ListenAsync(over.Token));
                try
                {
                    for (int attempt = 0; !over.IsCancellationRequested;)
                    {
                        bell.Clear();
                        GamedError error = await TriedAsync(over.Token).ConfigureAwait(false);
                        foreach (SyncStatus status in News())
                        {
                            changed(status);
                            Tell(() => OnChanged(status));
                        }
                        attempt = error == null ? 0 : Math.Min(attempt + 1, 8);
                        double seconds = error == null ? UntilDue() : Wire.PauseAfter(error, attempt);
                        Task change = error == null || LacksSpace() ? bell.Rung : null;
                        await EitherAsync(change, seconds, over.Token).ConfigureAwait(false);
                    }
                    if (!stop.IsCancellationRequested)
                        throw Closed();
                }
                catch (Exception e)
                {
                    bool ends = e is InUseException || e is OperationCanceledException;
                    if (!over.IsCancellationRequested || !ends)
                        throw;
                    if (!stop.IsCancellationRequested)
                        throw Closed();
                }
                finally
                {
                    over.Cancel();
                    listening.Forget();
                }
            }
        }

        /// <summary>Calls SendAsync; returns an error that a retry may end, throws others.</summary>
        async Task<GamedError> TriedAsync(CancellationToken stop)
        {
            try
            {
                await SendOnceAsync(stop).ConfigureAwait(false);
            }
            catch (GamedError error)
            {
                if (Ends(error) || error is InUseException)
                    throw;
            }
            return lastProblem;
        }

        double UntilDue()
        {
            lock (gate)
            {
                IEnumerable<SlotProblem> all = problems.Values.Concat(copyProblems.Values);
                return Math.Max(0, all.Select(p => p.Due).DefaultIfEmpty(1e9).Min() - Now());
            }
        }

        double Now() => clock.Elapsed.TotalSeconds;

        /// <summary>Waits at the server for changes, and rings; SendAsync requests the changes.</summary>
        async Task ListenAsync(CancellationToken over)
        {
            try
            {
                for (int attempt = 0; ;)
                {
                    string asked = cursor;
                    double began = Now();
                    bool rang = false;
                    try
                    {
                        rang = asked != null && await WaitedAsync(asked, over).ConfigureAwait(false);
                        attempt = 0;
                        if (rang)
                            bell.Ring();
                    }
                    catch (GamedError error)
                    {
                        if (Ends(error))  // SendAsync tries the same; after a sign-in it succeeds: wait again
                            bell.Ring();
                        await Delay(Wire.PauseAfter(error, attempt), over).ConfigureAwait(false);
                        attempt = Math.Min(attempt + 1, 8);
                    }
                    if (rang || Now() - began < 1)  // SendAsync needs a moment; at most one request per second
                        await Delay(1, over).ConfigureAwait(false);
                }
            }
            catch (OperationCanceledException)
            {
            }
        }

        static Task Delay(double seconds, CancellationToken cancel) =>
            Task.Delay(TimeSpan.FromSeconds(seconds), cancel);

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

        /// <summary>Returns the statuses that have changed since the last report to the game.</summary>
        IList<SyncStatus> News()
        {
            lock (gate)
            {
                List<SyncStatus> statuses = Statuses();
                Dictionary<string, string> before = reported, now = statuses.ToDictionary(s => s.Slot, LookOf);
                reported = now;
                return statuses.Where(s => s.Shown && (!before.ContainsKey(s.Slot) || before[s.Slot] != now[s.Slot]))
                    .ToList();
            }
        }

        /// <summary>Returns a text that changes when the game has to show the status again: also for a newer version at
        /// the server.</summary>
        string LookOf(SyncStatus status)
        {
            SaveInfo remote = RecordOf(status.Slot).Remote;
            bool theirs = status.State == SyncStatus.Newer || status.State == SyncStatus.Conflict;
            string of = theirs && remote != null ? remote.Etag : "";
            return status.State + " " + of + " " + (status.Problem == null ? "" : status.Problem.Code);
        }

        /// <summary>Requests all changes, page by page, before any write is sent.</summary>
        async Task HearAsync(GamedClient only, CancellationToken cancel)
        {
            HashSet<string> unlisted;
            lock (gate)
            {
                unlisted = new HashSet<string>(Known().Where(slot => RecordOf(slot).Unlisted != null
                    && RecordOf(slot).Unlisted == cursor));
            }
            while (await HearPageAsync(only, unlisted, cancel).ConfigureAwait(false))
            {
            }
        }

        /// <summary>Requests a page of changes; returns whether there are more. The cursor is stored last, so that an
        /// interrupted page is requested again. `unlisted` are the slots that this device has written since the cursor:
        /// if a list of changes lacks that version, the server may have lost it.</summary>
        async Task<bool> HearPageAsync(GamedClient only, ISet<string> unlisted, CancellationToken cancel)
        {
            string asked = whole == null ? cursor : whole.Cursor;
            Changes changes = await ChangesAsync(only, asked, cancel).ConfigureAwait(false);
            if (changes.More && changes.Cursor == asked)
                throw new NotGamedException("The server's pages of changes do not end.");
            var listed = new Dictionary<string, SaveInfo>();  // null: deleted
            foreach (SaveInfo info in changes.Saves.Where(info => Saves.IsSlot(info.Slot)))
                listed[info.Slot] = info;  // a later protocol may list names that are not slots here
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
                unlisted.Clear();
            }
            foreach (string slot in unlisted.Where(each => !changes.More || listed.ContainsKey(each)).ToList())
            {
                SaveInfo entry;
                bool has = listed.TryGetValue(slot, out entry);
                await CompareUnlistedAsync(only, slot, has, entry, cancel).ConfigureAwait(false);
                unlisted.Remove(slot);
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
            catch (RefusedException error)
            {
                if (asked == null || error.Status != 400)
                    throw;
            }
            return await only.ChangesAsync(null, 0, cancel).ConfigureAwait(false);  // the server does not know it
        }

        /// <summary>Compares all records with a whole list. The server may have lost writes: a base that is not in its
        /// history makes the game's bytes pending again.</summary>
        async Task HearAllAsync(GamedClient only, WholeList all, CancellationToken cancel)
        {
            lock (gate)
            {
                problems.Clear();
                copyProblems.Clear();
            }
            foreach (string slot in Known().Where(each => !all.Compared.Contains(each)))
            {
                Record record = RecordOf(slot);
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

        async Task CompareUnlistedAsync(GamedClient only, string slot, bool has, SaveInfo entry,
            CancellationToken cancel)
        {
            Record record = RecordOf(slot);
            SaveInfo written = record.Base;
            if (written == null || (entry != null && entry.Etag == written.Etag))
                return;
            if (has)
            {
                await CompareAsync(only, record, true, entry, cancel).ConfigureAwait(false);
                return;
            }
            IList<SaveVersion> history = await HistoryAsync(only, slot, written.Version, cancel).ConfigureAwait(false);
            bool known = history.Any(version => version.Save?.Etag == written.Etag);
            Change(slot, r => r.Relisted(known, false, true));
        }

        async Task CompareAsync(GamedClient only, Record record, bool has, SaveInfo entry, CancellationToken cancel)
        {
            SaveInfo stands = record.Base ?? record.Remote;
            IList<SaveVersion> history = stands == null ? new SaveVersion[0]
                : await HistoryAsync(only, record.Slot, stands.Version, cancel).ConfigureAwait(false);
            SaveVersion newest = history.FirstOrDefault(version => version.Kind != "conflict");
            bool deleted = newest != null && newest.Kind == "delete";
            bool kept = record.Base == null || history.Any(version => version.Save?.Etag == record.Base.Etag);
            bool agrees = entry != null && record.Local != null && entry.Sha256 == record.Local.Sha256;
            bool known = (kept && (deleted || has)) || agrees;
            Change(record.Slot, r => r.Relisted(known, deleted, has));
        }

        /// <summary>Requests the versions of a slot down to `downTo`; returns none if the server never had
        /// it.</summary>
        static async Task<IList<SaveVersion>> HistoryAsync(GamedClient only, string slot, long downTo,
            CancellationToken cancel)
        {
            try
            {
                return await only.VersionsAsync(slot, cancel, downTo, PageVersions).ConfigureAwait(false);
            }
            catch (NotFoundException)
            {
                return new SaveVersion[0];
            }
        }

        /// <summary>Returns whether the error ends SendAsync: it concerns the server or the player, not one
        /// slot.</summary>
        static bool Halts(GamedError error) =>
            error is Unreachable || error is Busy || error is RateLimited || error is SignInRequired
                || error is PlayerBlocked || error is NotGamed || error is UntrustedAddress;

        /// <summary>Returns whether an error of a request says nothing of the slot: it also passes on one of this
        /// device's credential.</summary>
        static bool Passes(GamedError error) => Halts(error) || error is InUseException || error.Code == "local_disk";

        /// <summary>Sends a slot's pending write; returns whether to call it again.</summary>
        async Task<bool> SendSlotAsync(GamedClient only, string slot, CancellationToken cancel)
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
                Refuse(problems, slot, error);
            }
            return true;
        }

        /// <summary>Returns the record with the write to send, which is on disk first: the same one until the server
        /// has answered it.</summary>
        Record Next(string slot)
        {
            lock (gate)
            {
                Record record = RecordOf(slot);
                Sent sent = record.Sent;
                SlotProblem problem = problems.Find(slot);
                if (problem != null && sent != null)
                {
                    if (problem.Final && !Local.Same(sent.Local, record.Local))
                        sent = null;  // the server refused it, and the game has written other bytes since
                    else if (Now() < problem.Due)
                        return null;
                }
                if (record.Dispute != null || (sent == null && !record.Dirty))
                    return null;
                problems.Remove(slot);
                if (sent == null && record.Local == null && record.Base == null)
                {
                    Change(slot, r => r.With(fresh =>  // the server never had it
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
            string before = cursor;
            try
            {
                SaveInfo info = await PutAsync(only, slot, data, sent, cancel).ConfigureAwait(false);
                return record => record.Written(info, before);
            }
            catch (ConflictException error)
            {
                if (error.Code == "superseded")
                    return record => record.Performed(error.Yours, error.Current);
                return record => record.Disputed(error);
            }
        }

        static Task<SaveInfo> PutAsync(GamedClient only, string slot, byte[] data, Sent sent, CancellationToken cancel)
        {
            IDictionary<string, object> meta = sent.Local.Meta.Count == 0 ? null : sent.Local.Meta;
            return only.PutAsync(slot, data, sent.Base, sent.Local.ContentType, meta, cancel);
        }

        async Task<Func<Record, Record>> RemoveAsync(GamedClient only, string slot, Sent sent, CancellationToken cancel)
        {
            Conflict error;
            try
            {
                await only.DeleteAsync(slot, sent.Base, cancel).ConfigureAwait(false);
                return record => record.Performed(null, null);
            }
            catch (NotFoundException)
            {
                return record => record.Performed(null, null);  // the slot is empty, as wanted
            }
            catch (ConflictException refusal)
            {
                error = refusal;
            }
            IList<SaveVersion> history = await only.VersionsAsync(slot, cancel, sent.Base.Version, PageVersions)
                .ConfigureAwait(false);
            if (history.Any(version => version.Kind == "delete" && version.Parent == sent.Base.Version))
                return record => record.Performed(null, error.Current);  // before another device wrote
            return record => record.Disputed(error);
        }

        bool Waits(IDictionary<string, SlotProblem> which, string slot) => Now() < which.Find(slot)?.Due;

        /// <summary>Notes the error for the slot; throws it if it says nothing of the slot.</summary>
        void Refuse(IDictionary<string, SlotProblem> which, string slot, GamedError error)
        {
            if (Passes(error))
                ExceptionDispatchInfo.Capture(error).Throw();
            Note(which, slot, error);
        }

        void Note(IDictionary<string, SlotProblem> which, string slot, GamedError error)
        {
            lock (gate)
                which[slot] = new SlotProblem { Error = error, Due = Now() + (error.RetryAfter ?? AgainSeconds) };
        }

        /// <summary>Sends the slot's Offered if the server has no save there; a write of the game after it is a
        /// conflict.</summary>
        async Task SendOfferedAsync(GamedClient only, string slot, CancellationToken cancel)
        {
            Record record = RecordOf(slot);
            Local offered = record.Offered;
            bool taken = record.Base != null || record.Remote != null || record.Sent != null || record.Dispute != null;
            if (offered == null || taken)
                return;
            await SendAsideAsync(only, slot, new Sent { Local = offered }, (now, info, refusal) =>
            {
                if (now.Offered != offered)
                    return now;
                if (refusal != null)
                    return now.NotPlaced(refusal);
                // without info the file is damaged; the other player still has it
                return info != null ? now.Placed(info) : now.With(made => made.Offered = null);
            }, cancel).ConfigureAwait(false);
        }

        /// <summary>Sends the slot's UnsentCopy, until the server has answered. A refusal is expected: the server has
        /// kept the bytes then, or does not know this save.</summary>
        async Task SendCopyAsync(GamedClient only, string slot, CancellationToken cancel)
        {
            Record record = RecordOf(slot);
            Sent copy = record.UnsentCopy;
            if (copy == null || copy.Local == null || record.Sent != null)
                return;
            await SendAsideAsync(only, slot, copy, (now, info, refusal) =>
                now.UnsentCopy == copy ? now.With(r => r.UnsentCopy = null) : now, cancel).ConfigureAwait(false);
        }

        /// <summary>Sends bytes for which other writes of the slot do not wait. `after` returns the record after the
        /// server's answer, a SaveInfo or a refusal; it gets neither if the file is damaged.</summary>
        async Task SendAsideAsync(GamedClient only, string slot, Sent sent,
            Func<Record, SaveInfo, Conflict, Record> after, CancellationToken cancel)
        {
            byte[] data;
            lock (gate)
            {
                if (Waits(copyProblems, slot))
                    return;
                data = store.Load(slot, sent.Local.Sha256);
            }
            SaveInfo info = null;
            Conflict refusal = null;
            try
            {
                if (data != null)
                    info = await PutAsync(only, slot, data, sent, cancel).ConfigureAwait(false);
            }
            catch (ConflictException error)
            {
                refusal = error;
            }
            catch (GamedError error)
            {
                Refuse(copyProblems, slot, error);
                return;
            }
            lock (gate)
            {
                copyProblems.Remove(slot);
                Change(slot, record => after(record, info, refusal));
            }
        }

        /// <summary>Deletes a conflict copy whose bytes have become current, so that the player does not see it as a
        /// conflict.</summary>
        async Task DismissAsync(GamedClient only, string slot, CancellationToken cancel)
        {
            Record record = RecordOf(slot);
            if (record.Spent == null || !record.Idle)
                return;
            if (record.Base != null && record.Base.Sha256 == record.Spent.Sha256)
            {
                try
                {
                    await only.DismissAsync(slot, record.Spent.Version, cancel).ConfigureAwait(false);
                }
                catch (GamedError error)
                {
                    if (Passes(error))
                        throw;  // else the copy expires later
                }
            }
            Change(slot, r => r.With(fresh => fresh.Spent = null));
        }

        /// <summary>Downloads the bytes that the game may read next, also offline.</summary>
        async Task FetchAsync(GamedClient only, string slot, CancellationToken cancel)
        {
            SaveInfo wanted;
            lock (gate)
            {
                Record record = RecordOf(slot);
                wanted = record.Dispute != null ? record.Dispute.Current : record.Newer ? record.Remote
                    : record.Dirty ? null : record.Base;
                if (wanted == null || store.Has(slot, wanted) || Waits(problems, slot))
                    return;
            }
            try
            {
                KeepBody(slot, await FetchedAsync(only, wanted, cancel).ConfigureAwait(false));
            }
            catch (NotFoundException)
            {
                return;  // it was replaced meanwhile: the next list has the new version
            }
            catch (GamedError error)
            {
                Refuse(problems, slot, error);
                return;
            }
            catch (Exception error)
            {
                GamedError full = Errors.OfDisk(error);
                if (full == null)
                    throw;
                Note(problems, slot, full);  // else every SendAsync would download it again
                return;
            }
            lock (gate)
                problems.Remove(slot);
        }

        /// <summary>Stores the bytes if a record still names them.</summary>
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
                throw new NotFoundException(new Failure("version_gone",
                    "The server has another save under this version."));
            return found.Data;
        }

        /// <summary>Returns the folder of a player's saves; of those before the first sign-in if the id is
        /// empty.</summary>
        static string FolderName(string playerId)
        {
            if (playerId == "")
                return Unowned;
            bool safe = Regex.IsMatch(playerId, @"\A[A-Za-z0-9_-]{1,64}\z");
            return safe ? playerId : Saves.Hex(Saves.Hash(Encoding.UTF8.GetBytes(playerId)));
        }
    }
}
