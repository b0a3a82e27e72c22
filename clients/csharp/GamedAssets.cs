// Downloads for GamedClient.cs: the files that a game loads, always those of one release.
//
// Copy it beside GamedClient.cs; C# 6, nothing beyond mscorlib, System and System.Core.
//
//     var assets = new Assets(client);                     // or new Assets(client, folder); sends no request
//     await assets.DownloadAsync("stable", progress: Show);       // only new bytes; continues an interrupted one
//     File.OpenRead(assets.PathOf("data/level1.pck"));     // of the newest complete release; offline too
//
// A download never changes the release that is in use: it adds another one beside it and then replaces `current` in one
// step. Its folder, which any program of this user may read:
//
//     current                   the release to load, one line; replaced last
//     releases/<release>/...    its files, under their own paths
//     releases/<release>.json   its manifest; written once every file is there
//     staging/                  files that have partly arrived, kept for the next download
//     use/                      marks of the releases that processes have open
//     lock                      held by the one process that downloads
//
// Every failure is a GamedException. Methods may be called from any thread.

using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Runtime.ExceptionServices;
using System.Runtime.InteropServices;
using System.Security.Cryptography;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;

namespace Gamed
{
    /// <summary>The older name of <see cref="DiskFullException"/>.</summary>
    public class DiskFull : LocalDamagedException { internal DiskFull(Failure how) : base(how) { } }

    /// <summary>The release does not fit on this device; received bytes are kept for the next download.</summary>
    public class DiskFullException : DiskFull
    {
        /// <summary>`missing` is in bytes.</summary>
        internal DiskFullException(long missing, Exception inner) : base(new Failure("disk_full",
            "This device has no room for the download: " +
            (missing / 1048576.0).ToString("0.0", CultureInfo.InvariantCulture) +
            " MiB are still to come. Free some space, then start it again.", inner)) { }
    }

    // --- A release: validated before any part of it is used -----------------------------------------------------

    /// <summary>One file of a release (docs/protocol.md: Assets).</summary>
    public sealed class AssetFile
    {
        /// <summary>Bytes.</summary>
        public long Size { get; private set; }

        /// <summary>64 digits of hex.</summary>
        public string Sha256 { get; private set; }

        /// <summary>A media type.</summary>
        public string Type { get; private set; }

        internal static AssetFile Of(object value)
        {
            var members = value as IDictionary<string, object>;
            var file = new AssetFile
            {
                Size = Members.Of<long>(members, "size"),
                Sha256 = Members.Of<string>(members, "sha256"),
                Type = Members.Maybe<string>(members, "type") ?? GamedClient.Bytes,
            };
            if (file.Size < 0 || !Saves.Hashes.IsMatch(file.Sha256))
                throw new NotGamedException("The release's list of files is malformed.");
            return file;
        }
    }

    /// <summary>The manifest of a release (docs/protocol.md: Assets).</summary>
    public sealed class Manifest
    {
        const int MaxFiles = 100000;

        internal static readonly Regex Releases = new Regex(@"\Ar[0-9a-f]{16}\z");

        internal byte[] Raw;

        /// <summary>`r` and 16 digits of hex.</summary>
        public string Release { get; private set; }

        /// <summary>RFC 3339.</summary>
        public string Published { get; private set; }

        /// <summary>The publisher's description, one line.</summary>
        public string Note { get; private set; }

        /// <summary>Values that the owner wrote for the game.</summary>
        public IDictionary<string, object> Meta { get; private set; }

        /// <summary>The files by their paths: relative, with `/`, valid on every file system that players
        /// have.</summary>
        public IDictionary<string, AssetFile> Files { get; private set; }

        /// <summary>The size of all files in bytes.</summary>
        public long Size => Files.Values.Sum(file => file.Size);

        /// <summary>Returns the id of a release: a hash of the exact bytes of its manifest.</summary>
        internal static string ReleaseOf(byte[] raw) => "r" + Saves.Hex(Saves.Hash(raw)).Substring(0, 16);

        /// <summary>Parses a manifest; throws NotGamedException if this device must not store its files.</summary>
        internal static Manifest Of(byte[] raw)
        {
            var value = Errors.Parsed(() => Json.Parse(raw), "The server's list of files is malformed.")
                as IDictionary<string, object>;
            if (Members.Maybe<long>(value, "format") != 1)
                throw new NotGamedException("The release has a format that this game does not know; update the game.");
            var listed = Members.Of<Dictionary<string, object>>(value, "files");
            if (listed.Count > MaxFiles)
                throw new NotGamedException("The release has more files than this game takes.");
            AssetPaths.Refuse(listed.Keys);
            Dictionary<string, AssetFile> files =
                listed.ToDictionary(pair => pair.Key, pair => AssetFile.Of(pair.Value));
            if (files.Values.GroupBy(file => file.Sha256).Any(same => same.Any(file => file.Size != same.First().Size)))
                throw new NotGamedException("The release gives a file two sizes.");
            return new Manifest
            {
                Raw = raw,
                Release = ReleaseOf(raw),
                Published = Members.Maybe<string>(value, "published") ?? "",
                Note = Members.Maybe<string>(value, "note") ?? "",
                Meta = Members.Maybe<Dictionary<string, object>>(value, "meta") ?? new Dictionary<string, object>(),
                Files = files,
            };
        }
    }

    /// <summary>The paths that files of this device may have.</summary>
    static class AssetPaths
    {
        const int MaxPathBytes = 1024, MaxNameBytes = 255;

        static readonly char[] NotOnWindows = "<>:\"|?*\\".ToCharArray();

        /// <summary>Throws NotGamedException unless all paths can be files of one folder on any system.</summary>
        internal static void Refuse(IEnumerable<string> paths)
        {
            var files = new HashSet<string>(StringComparer.Ordinal);
            var folders = new HashSet<string>(StringComparer.Ordinal);
            foreach (string path in paths)
            {
                string flaw = FlawOf(path);
                if (flaw != null)
                    throw new NotGamedException(
                        "The release has a file that must not be written: '" + path + "' " + flaw + ".");
                string key = Fold(path);
                List<string> above = Above(key).ToList();
                if (!files.Add(key) || folders.Contains(key) || above.Any(files.Contains))
                    throw new NotGamedException(
                        "The release has two files, or file and folder, of one name: '" + path + "'.");
                folders.UnionWith(above);
            }
        }

        static IEnumerable<string> Above(string path)
        {
            for (int at = path.IndexOf('/'); at >= 0; at = path.IndexOf('/', at + 1))
                yield return path.Substring(0, at);
        }

        /// <summary>Returns equal texts for paths that are the same on a file system that ignores case.</summary>
        static string Fold(string path) =>
            path.Normalize(NormalizationForm.FormC).ToUpperInvariant().ToLowerInvariant()
                .Normalize(NormalizationForm.FormC);

        /// <summary>Returns the reason why a file cannot have this path; null for a valid one.</summary>
        internal static string FlawOf(string path)
        {
            string[] names = path.Split('/');
            if (Encoding.UTF8.GetByteCount(path) > MaxPathBytes
                || names.Any(name => Encoding.UTF8.GetByteCount(name) > MaxNameBytes))
                return "is too long";
            if (names.Any(name => name == "" || name == "." || name == ".."))
                return "leads elsewhere";
            if (path.IndexOfAny(NotOnWindows) >= 0 || path.Any(IsUnprinted))
                return "has characters that some systems refuse";
            if (path.Normalize(NormalizationForm.FormC) != path)
                return "is not in the normal form NFC";
            if (names.Any(name => name[name.Length - 1] == '.' || name[name.Length - 1] == ' '))
                return "ends in a dot or a space";
            return names.Any(IsDevice) ? "is a device on Windows" : null;
        }

        /// <summary>Returns whether this is a control or separating character. Lone surrogates cannot occur:
        /// <see cref="Json"/> refuses them.</summary>
        static bool IsUnprinted(char c)
        {
            UnicodeCategory category = char.GetUnicodeCategory(c);
            return category == UnicodeCategory.Control || category == UnicodeCategory.LineSeparator
                || category == UnicodeCategory.ParagraphSeparator;
        }

        static bool IsDevice(string name)
        {
            string stem = name.Split('.')[0].TrimEnd(' ').ToLowerInvariant();
            stem = stem.Replace('\u00b9', '1').Replace('\u00b2', '2').Replace('\u00b3', '3');
            return stem == "conin$" || stem == "conout$" || Saves.Devices.IsMatch(stem);
        }
    }

    // --- The disk ----------------------------------------------------------------------------------------------------

    /// <summary>The folder that the top of this file describes.</summary>
    sealed class AssetFolder
    {
        readonly string root;

        [DllImport("libc", SetLastError = true)]
        static extern int link(byte[] from, byte[] to);

        [DllImport("kernel32.dll", SetLastError = true, CharSet = CharSet.Unicode)]
        [return: MarshalAs(UnmanagedType.Bool)]
        static extern bool CreateHardLinkW(string to, string from, IntPtr security);

        internal AssetFolder(string root)
        {
            this.root = root;
        }

        internal string Staging => Path.Combine(root, "staging");

        string Releases => Path.Combine(root, "releases");

        string Use => Path.Combine(root, "use");

        internal void Make()
        {
            foreach (string folder in new[] { Releases, Staging, Use })
                Disk.PrivateFolder(folder);
        }

        /// <summary>Acquires the lock of downloads; returns null if another process has it.</summary>
        internal IDisposable TryLock() => Disk.TryLock(Path.Combine(root, "lock"));

        /// <summary>The release that the pointer names, or null.</summary>
        internal string Current
        {
            get
            {
                string release = Disk.ReadText(Path.Combine(root, "current"))?.Trim() ?? "";
                return Manifest.Releases.IsMatch(release) ? release : null;
            }
        }

        internal void Point(string release) =>
            Disk.WriteWhole(Path.Combine(root, "current"), Encoding.ASCII.GetBytes(release + "\n"));

        internal string FolderOf(string release) => Path.Combine(Releases, release);

        internal string PathOf(string release, string path) =>
            Path.Combine(FolderOf(release), path.Replace('/', Path.DirectorySeparatorChar));

        /// <summary>The manifest of a complete local release, or null.</summary>
        internal Manifest ManifestOf(string release)
        {
            byte[] raw = release == null ? null : Disk.Read(FolderOf(release) + ".json");
            if (raw == null || Manifest.ReleaseOf(raw) != release)
                return null;
            try
            {
                return Manifest.Of(raw);
            }
            catch (NotGamedException)
            {
                return null;
            }
        }

        /// <summary>Lists every complete release on this device.</summary>
        internal IEnumerable<Manifest> Whole() =>
            Directory.GetFiles(Releases, "*.json").Select(Path.GetFileNameWithoutExtension)
                .Where(name => Manifest.Releases.IsMatch(name)).Select(ManifestOf).Where(manifest => manifest != null);

        /// <summary>Writes the manifest, which makes the release complete: its files and their names are on
        /// disk.</summary>
        internal void KeepManifest(Manifest manifest)
        {
            string folder = FolderOf(manifest.Release);
            Disk.PrivateFolder(folder);
            foreach (string each in Directory.GetDirectories(folder, "*", SearchOption.AllDirectories))
                Disk.SyncFolder(each);
            Disk.SyncFolder(folder);
            Disk.SyncFolder(Releases);
            Disk.WriteWhole(folder + ".json", manifest.Raw);
        }

        /// <summary>Links a file under a second name; copies it if the file system does not support hard
        /// links.</summary>
        internal void PutBeside(string source, string target)
        {
            Disk.PrivateFolder(Path.GetDirectoryName(target));
            if (File.Exists(target))
                File.Delete(target);
            if (Disk.IsWindows && CreateHardLinkW(target, source, IntPtr.Zero))
                return;
            if (Disk.HasLibc && link(Disk.Bytes(source), Disk.Bytes(target)) == 0)
                return;
            string temporary = Path.Combine(Staging, Guid.NewGuid().ToString("N"));
            File.Copy(source, temporary);
            using (var file = new FileStream(temporary, FileMode.Open, FileAccess.ReadWrite))
                Disk.Sync(file);
            Disk.Move(temporary, target);
        }

        // -- releases that processes have open --

        /// <summary>Returns the current release, which no process removes until `held` is disposed; null if no release
        /// is here.</summary>
        internal string Hold(out IDisposable held)
        {
            for (; ; )
            {
                string release = Current;
                held = null;
                if (release == null || !File.Exists(FolderOf(release) + ".json"))
                    return null;
                string mark = Path.Combine(Use, release + "." + Guid.NewGuid().ToString("N"));
                IDisposable handle = Disk.TryLock(mark);
                // a removal first replaces `current`, then reads the marks: check in the opposite order
                bool whole = handle != null && Current == release && File.Exists(mark)
                    && File.Exists(FolderOf(release) + ".json");
                var marked = new Once(() =>
                {
                    handle.Dispose();
                    Disk.Try(() => File.Delete(mark));
                });
                if (whole)
                {
                    held = marked;
                    return release;
                }
                if (handle != null)
                    marked.Dispose();
            }
        }

        /// <summary>Lists the releases that processes have open. Deletes the marks of processes that have
        /// ended.</summary>
        ISet<string> Held()
        {
            var found = new HashSet<string>();
            foreach (string mark in Directory.GetFiles(Use))
            {
                IDisposable free = Disk.TryLock(mark);
                if (free == null)
                    found.Add(Path.GetFileName(mark).Split('.')[0]);
                else
                    using (free)
                        Disk.Try(() => File.Delete(mark));
            }
            return found;
        }

        /// <summary>Deletes the releases that no process has open. Files that the system refuses to delete are left to
        /// the next call.</summary>
        internal void RemoveOthers(string keep)
        {
            ISet<string> spared = Held();
            spared.Add(keep);
            foreach (string path in Directory.GetFiles(Releases, "*.json"))
                if (!spared.Contains(Path.GetFileNameWithoutExtension(path)))
                    Disk.Try(() => File.Delete(path));
            foreach (string path in Directory.GetDirectories(Releases))
                if (!spared.Contains(Path.GetFileName(path)))
                    Disk.Try(() => Directory.Delete(path, true));
            foreach (string path in Directory.GetFiles(Staging))
                Disk.Try(() => File.Delete(path));
        }

        internal static string DigestOf(string path)
        {
            using (var file = new FileStream(path, FileMode.Open, FileAccess.Read, FileShare.Read, 1 << 20))
            using (var sha256 = new SHA256Managed())
                return Saves.Hex(sha256.ComputeHash(file));
        }
    }

    // --- A download --------------------------------------------------------------------------------------------------

    /// <summary>The progress of a download, for a bar.</summary>
    public sealed partial class AssetProgress
    {
        /// <summary>looking (for files on this device), fetching, finishing.</summary>
        public string Stage { get; internal set; }

        /// <summary>The id of the release.</summary>
        public string Release { get; internal set; }

        /// <summary>The bytes that are on this device.</summary>
        public long Done { get; internal set; }

        /// <summary>The size of the release in bytes.</summary>
        public long Size { get; internal set; }

        /// <summary>The bytes received over the network since the download began.</summary>
        public long Fetched { get; internal set; }

        internal AssetProgress Copy() => (AssetProgress)MemberwiseClone();
    }

    /// <summary>Requests that carry a token only if the server asks for one: public files do not need a
    /// sign-in.</summary>
    sealed class AssetAccess
    {
        readonly GamedClient client;
        volatile bool asked;

        internal AssetAccess(GamedClient client)
        {
            this.client = client;
        }

        internal Wire Wire => client.Wire;

        internal async Task<T> AskAsync<T>(Func<string, Task<T>> call, CancellationToken cancel)
        {
            if (!asked)
            {
                try
                {
                    return await call(null).ConfigureAwait(false);
                }
                catch (SignInRequiredException error)
                {
                    if (error.Code != "token_missing")
                        throw;
                }
                asked = true;
            }
            return await client.InNameAsync(used => call(used.AccessToken), cancel).ConfigureAwait(false);
        }
    }

    /// <summary>The download of one release into the folder. A few connections fetch the missing files; the first
    /// failure ends all.</summary>
    sealed class Download
    {
        const int Workers = 4, MaxErrorBytes = 1 << 20;
        const long ReportMilliseconds = 100;

        readonly AssetAccess access;
        readonly AssetFolder place;
        readonly Manifest manifest;
        readonly Action<AssetProgress> tell;
        readonly CancellationToken cancel;

        /// <summary>Held for the numbers below, which all connections share.</summary>
        readonly object gate = new object();

        readonly Stopwatch clock = Stopwatch.StartNew();
        readonly AssetProgress progress;
        long reported = long.MinValue / 2;

        internal Download(AssetAccess access, AssetFolder place, Manifest manifest, Action<AssetProgress> tell,
            CancellationToken cancel)
        {
            this.access = access;
            this.place = place;
            this.manifest = manifest;
            this.tell = tell;
            this.cancel = cancel;
            progress = new AssetProgress { Release = manifest.Release, Size = manifest.Size };
        }

        /// <summary>The bytes that are not on this device yet, once RunAsync has ended.</summary>
        internal long Missing => progress.Size - progress.Done;

        /// <summary>True if a file was missing or misplaced.</summary>
        internal bool Changed { get; private set; }

        /// <summary>Downloads all missing files; every file is in the release's folder, and on disk, when it ends.
        /// `again`: also read complete files.</summary>
        internal async Task RunAsync(bool again)
        {
            Stage("looking");
            Dictionary<string, List<string>> missing = Look(again);
            Stage("fetching");
            Changed = Changed || missing.Count > 0;
            var wanted = new ConcurrentQueue<AssetFile>(manifest.Files.Values.Where(f => missing.ContainsKey(f.Sha256))
                .GroupBy(file => file.Sha256).Select(same => same.First()));
            using (CancellationTokenSource over = CancellationTokenSource.CreateLinkedTokenSource(cancel))
            {
                ExceptionDispatchInfo failure = null;
                Func<Task> work = async () =>
                {
                    try
                    {
                        AssetFile file;
                        while (!over.IsCancellationRequested && wanted.TryDequeue(out file))
                            await FileAsync(file, missing[file.Sha256], over.Token).ConfigureAwait(false);
                    }
                    catch (Exception e)
                    {
                        Interlocked.CompareExchange(ref failure, ExceptionDispatchInfo.Capture(e), null);
                        over.Cancel();
                    }
                };
                await Task.WhenAll(Enumerable.Range(0, Math.Min(Workers, wanted.Count)).Select(n => Task.Run(work)))
                    .ConfigureAwait(false);
                cancel.ThrowIfCancellationRequested();
                failure?.Throw();
            }
            Stage("finishing");
        }

        // -- files on this device --

        /// <summary>Returns the missing hashes with the paths of their files. Copies bytes of other releases instead of
        /// fetching them again.</summary>
        Dictionary<string, List<string>> Look(bool again)
        {
            bool whole = place.ManifestOf(manifest.Release) != null;
            var here = new Dictionary<string, string>();
            foreach (Manifest other in place.Whole())
                foreach (KeyValuePair<string, AssetFile> file in other.Files)
                    if (other.Release != manifest.Release)
                        here[file.Value.Sha256] = place.PathOf(other.Release, file.Key);
            var missing = new Dictionary<string, List<string>>();
            foreach (KeyValuePair<string, AssetFile> entry in manifest.Files)
            {
                cancel.ThrowIfCancellationRequested();
                AssetFile file = entry.Value;
                string target = place.PathOf(manifest.Release, entry.Key), source;
                if (Holds(target, file, again || !whole))
                    Count(file.Size, 0);
                else if (here.TryGetValue(file.Sha256, out source) && Holds(source, file, true))
                {
                    Changed = true;
                    place.PutBeside(source, target);
                    Count(file.Size, 0);
                }
                else if (missing.ContainsKey(file.Sha256))
                    missing[file.Sha256].Add(target);
                else
                    missing[file.Sha256] = new List<string> { target };
            }
            return missing;
        }

        static bool Holds(string path, AssetFile file, bool read)
        {
            var found = new FileInfo(path);
            if (!found.Exists || found.Length != file.Size || (found.Attributes & FileAttributes.ReparsePoint) != 0)
                return false;
            return !read || AssetFolder.DigestOf(path) == file.Sha256;
        }

        // -- files to fetch --

        async Task FileAsync(AssetFile file, List<string> targets, CancellationToken over)
        {
            string part = Path.Combine(place.Staging, file.Sha256);
            for (int left = 1; ; left--)
            {
                await FetchAsync(file, part, over).ConfigureAwait(false);
                if (AssetFolder.DigestOf(part) == file.Sha256)
                    break;
                File.Delete(part);
                Count(-file.Size, 0);
                if (left == 0)
                    throw new DownloadCorruptException(new Failure("download_corrupt",
                        "A file of the release arrived damaged, twice."));
            }
            foreach (string target in targets)
                place.PutBeside(part, target);
            File.Delete(part);
            Count(file.Size * (targets.Count - 1), 0);
        }

        /// <summary>Fetches the rest of a file; a try that received bytes does not count.</summary>
        async Task FetchAsync(AssetFile file, string part, CancellationToken over)
        {
            using (var opened = new FileStream(part, FileMode.OpenOrCreate, FileAccess.ReadWrite, FileShare.Read))
            {
                if (opened.Length > file.Size)
                    opened.SetLength(0);
                opened.Seek(0, SeekOrigin.End);
                Count(opened.Length, 0);
                for (int attempt = 0; opened.Length < file.Size; attempt++)
                {
                    long before = opened.Length;
                    try
                    {
                        await access.AskAsync(token => StreamAsync(file, opened, token, over), over)
                            .ConfigureAwait(false);
                        break;
                    }
                    catch (GamedError error)
                    {
                        if (opened.Length > before)
                            attempt = 0;
                        await access.Wire.PauseAsync(error, attempt, access.Wire.Tries, Wire.LongestPauseSeconds, over)
                            .ConfigureAwait(false);
                    }
                }
                Disk.Sync(opened);
            }
        }

        async Task<Answer> StreamAsync(AssetFile file, FileStream part, string token, CancellationToken over)
        {
            var how = new Call { Bearer = token };
            long start = part.Length;
            how.ContinueAt(start, file.Size, "\"" + file.Sha256 + "\"");
            Func<Answer, Func<byte[], int, Task>> sink = head =>
            {
                long skip = SkippedOf(head, file, start);
                return (data, size) =>
                {
                    int before = (int)Math.Min(skip, size);
                    skip -= before;
                    if (part.Length + size - before > file.Size)
                        throw OtherBytes();
                    part.Write(data, before, size - before);
                    Count(size - before, size - before);
                    return Wire.Done;
                };
            };
            Answer answer = await access.Wire.DownloadAsync("/assets/objects/" + file.Sha256, how, MaxErrorBytes, sink,
                over).ConfigureAwait(false);
            if (part.Length != file.Size)
                throw OtherBytes();
            return answer;
        }

        static DownloadCorrupt OtherBytes() =>
            new DownloadCorruptException(new Failure("download_corrupt",
                "The server sends other bytes than its release has."));

        /// <summary>Returns the number of bytes before the wanted ones: 0, unless the server sends the whole file
        /// instead of the range.</summary>
        static long SkippedOf(Answer head, AssetFile file, long start)
        {
            string coding = head.Header("Content-Encoding").ToLowerInvariant();
            if (coding != "" && coding != "identity")
                throw new NotGamedException("Something between here and the server changes the files on their way.");
            if (head.Status == 200)
                return start;
            if (start == 0 || !head.ContinuesAt(start, file.Size))
                throw OtherBytes();
            return 0;
        }

        void Stage(string stage)
        {
            lock (gate)
                progress.Stage = stage;
            Tell(true);
        }

        void Count(long done, long fetched)
        {
            lock (gate)
            {
                progress.Done += done;
                progress.Fetched += fetched;
            }
            Tell(false);
        }

        /// <summary>Reports the progress, one call at a time, at most every ReportMilliseconds.</summary>
        void Tell(bool now)
        {
            lock (gate)
            {
                long time = clock.ElapsedMilliseconds;
                if (!now && time - reported < ReportMilliseconds)
                    return;
                reported = time;
                tell(progress.Copy());
            }
        }
    }

    // --- The interface of a game -------------------------------------------------------------------------------------

    /// <summary>A complete release on this device; no process removes it while this one has it open.</summary>
    public sealed class LocalRelease
    {
        readonly AssetFolder place;

        internal LocalRelease(AssetFolder place, Manifest manifest)
        {
            this.place = place;
            Manifest = manifest;
        }

        /// <summary>`r` and 16 digits of hex.</summary>
        public string Id => Manifest.Release;

        /// <summary>The folder of its files, under their own paths.</summary>
        public string Folder => place.FolderOf(Id);

        /// <summary>The files of the release.</summary>
        public Manifest Manifest { get; private set; }

        /// <summary>Returns the path of one of its files; throws NotFoundException.</summary>
        public string PathOf(string name)
        {
            if (!Manifest.Files.ContainsKey(name))
                throw new NotFoundException(new Failure("file_not_found", "'" + name + "' is not in this release."));
            return place.PathOf(Id, name);
        }
    }

    /// <summary>The releases of a server on this device. Only DownloadAsync sends requests; the other members
    /// read this device's disk on the calling thread.</summary>
    public sealed partial class Assets : IDisposable
    {
        const int MaxManifestBytes = 32 << 20;

        /// <summary>How often a download starts again because the server has deleted its release.</summary>
        const int Restarts = 3;

        static readonly Regex Channels = new Regex(@"\A[a-z][a-z0-9-]{0,31}\z");

        readonly object gate = new object();
        readonly AssetFolder place;
        readonly AssetAccess access;
        volatile LocalRelease open;
        IDisposable held;

        /// <summary>How often Dispose was called.</summary>
        int disposals;

        /// <summary>`folder` replaces the one beside the credential; it must not have other files. Throws
        /// LocalDamagedException.</summary>
        public Assets(GamedClient client, string folder = null)
        {
            Folder = Path.GetFullPath(folder ?? Path.Combine(client.Folder, "assets", client.Place));
            place = new AssetFolder(Folder);
            access = new AssetAccess(client);
            Errors.OnDisk(() => place.Make());
        }

        /// <summary>The folder of the releases on this device.</summary>
        public string Folder { get; private set; }

        // -- this device: no network --

        /// <summary>The newest complete release at the first read of this property, unchanged until
        /// <see cref="Switch"/>. Null if no release was downloaded yet.</summary>
        public LocalRelease Current
        {
            get
            {
                lock (gate)
                    return open ?? Switch();
            }
        }

        /// <summary>Returns the path of a file of the current release. Throws NotFoundException, and
        /// UnreachableException until a release has been downloaded.</summary>
        public string PathOf(string name)
        {
            LocalRelease release = Current;
            if (release == null)
                throw new UnreachableException("not_arrived", "The game's files have not been downloaded yet.");
            return release.PathOf(name);
        }

        /// <summary>Changes to the newest complete release in this process; call it when the game has closed the files
        /// of the old one. Returns null if there is none, or another thread calls Dispose meanwhile.</summary>
        public LocalRelease Switch() => Errors.OnDisk(() => Switched());

        LocalRelease Switched()
        {
            lock (gate)
            {
                IDisposable fresh;
                int before = Volatile.Read(ref disposals);
                string release = place.Hold(out fresh);
                Manifest manifest = place.ManifestOf(release);
                Release();
                if (manifest == null)
                {
                    fresh?.Dispose();
                    return null;
                }
                held = fresh;
                open = new LocalRelease(place, manifest);
                if (Volatile.Read(ref disposals) != before)
                    Release();  // another thread has called Dispose meanwhile, perhaps before it was held
                return open;
            }
        }

        /// <summary>Lets other processes remove the release that this one had open. Does not wait for a call on another
        /// thread.</summary>
        public void Dispose()
        {
            Interlocked.Increment(ref disposals);
            Release();
        }

        void Release()
        {
            IDisposable before = Interlocked.Exchange(ref held, null);
            open = null;
            before?.Dispose();
        }

        // -- the server --

        /// <summary>Downloads the channel's release (or one named by its id); it is complete and current on this device
        /// when this ends. Bytes that are here already are not fetched; `verify` checks all of them first. `progress`
        /// is called often, on threads of the pool. Received bytes are kept for the next download. This process keeps
        /// the release that it has open until <see cref="Switch"/>. Throws NotFoundException, SignInRequiredException
        /// if files are for players only, DiskFullException, DownloadCorruptException, InUseException,
        /// UnreachableException and other errors of requests, LocalDamagedException,
        /// OperationCanceledException.</summary>
        public Task<Manifest> DownloadAsync(string channel = "stable", Action<AssetProgress> progress = null,
            bool verify = false, CancellationToken cancel = default(CancellationToken))
        {
            if (!Channels.IsMatch(channel) && !Manifest.Releases.IsMatch(channel))
                throw new RefusedException(new Failure("invalid_channel",
                    "A channel's name has 1-32 of a-z 0-9 - and begins with a letter."));
            return Errors.OnDiskAsync(Task.Run(
                () => AloneAsync(channel, progress ?? (_ => { }), verify, cancel), cancel));
        }

        async Task<Manifest> AloneAsync(string channel, Action<AssetProgress> progress, bool verify,
            CancellationToken cancel)
        {
            using (IDisposable alone = place.TryLock())
            {
                if (alone == null)
                    throw new InUseException(new Failure("in_use", "Another process is downloading into this folder."));
                for (int left = Restarts - 1; ; left--)
                {
                    Manifest manifest = await ManifestAsync(channel, cancel).ConfigureAwait(false);
                    var download = new Download(access, place, manifest, progress, cancel);
                    try
                    {
                        await download.RunAsync(verify).ConfigureAwait(false);
                        if (download.Changed || place.ManifestOf(manifest.Release) == null)
                            place.KeepManifest(manifest);
                        if (place.Current != manifest.Release)
                            place.Point(manifest.Release);
                        place.RemoveOthers(manifest.Release);
                        return manifest;
                    }
                    catch (NotFoundException)  // the owner has removed it meanwhile: try the newer one
                    {
                        if (left == 0)
                            throw;
                    }
                    catch (IOException e)
                    {
                        int code = Marshal.GetHRForException(e) & 0xffff;
                        if (code == 112 || code == 39)  // ERROR_DISK_FULL, ERROR_HANDLE_DISK_FULL
                            throw new DiskFullException(download.Missing, e);
                        throw;
                    }
                }
            }
        }

        /// <summary>Reads the manifest. All later requests name its release, so that a publication meanwhile does not
        /// matter.</summary>
        async Task<Manifest> ManifestAsync(string channel, CancellationToken cancel)
        {
            Manifest here = place.ManifestOf(place.Current);
            var how = new Call { Check = CheckRelease, Limit = MaxManifestBytes };
            if (here != null)
                how.Headers["If-None-Match"] = "\"" + here.Release + "\"";
            try
            {
                Answer answer = await access.AskAsync(token =>
                {
                    how.Bearer = token;
                    return access.Wire.CallAsync("GET", "/assets/" + channel, how, cancel);
                }, cancel).ConfigureAwait(false);
                return Manifest.Of(answer.Body);
            }
            catch (NotModifiedException)
            {
                if (here == null)
                    throw;
                return here;
            }
        }

        /// <summary>Throws DownloadCorruptException unless the manifest has the hash that the release is named
        /// by.</summary>
        static void CheckRelease(Answer answer)
        {
            string named = answer.Header("Asset-Release");
            if (named == "")
                named = Regex.Match(answer.Header("ETag"), "\\A(?:W/)?\"([^\"]*)\"\\z").Groups[1].Value;
            if (!Manifest.Releases.IsMatch(named))
                throw new NotGamedException("The server's answer lacks 'ETag'.");
            if (Manifest.ReleaseOf(answer.Body) != named)
                throw new DownloadCorruptException(new Failure("download_corrupt",
                    "The list of files arrived damaged."));
        }
    }
}
