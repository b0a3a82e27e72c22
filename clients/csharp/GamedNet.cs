// The client's face for today's .NET: HttpClient, enums, DateTimeOffset, TimeSpan, typed answers, IProgress, events.
//
// Copy it beside GamedClient.cs, GamedSync.cs and GamedAssets.cs, whose classes it completes. It needs System.Net.Http,
// too, which .NET Standard 2.0 and .NET Framework 4.6 have. Unity does without it.
//
//     Sync sync = await Sync.OpenAsync(client);
//     sync.Changed += (sender, e) => Show(e.Status.Slot, e.Status.SlotState);    // SlotState.Newer, .Conflict, ...
//     sync.Start();
//     await sync.ReadyAsync(TimeSpan.FromSeconds(5));
//
// A member of the other files that is a text has a typed one beside it: State and SlotState, Modified and ModifiedTime.
// Events are raised on threads of the pool.

using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;

namespace Gamed
{
    // --- HTTP --------------------------------------------------------------------------------------------------------

    /// <summary>HTTP through an HttpClient: the default of <see cref="GamedOptions.Send"/> beside this file.</summary>
    public sealed class ClientHttp
    {
        static readonly Lazy<ClientHttp> Usual = new Lazy<ClientHttp>(() => new ClientHttp(CreateClient()));

        readonly HttpClient client;

        /// <summary>`client` replaces the one of <see cref="CreateClient"/>, for example for a proxy. It must not
        /// follow redirects, keep cookies or decompress (AutomaticDecompression), and its Timeout ends also long
        /// uploads.</summary>
        public ClientHttp(HttpClient client)
        {
            this.client = client;
        }

        /// <summary>Creates a client that does not follow redirects, keep cookies, use proxies or have a
        /// timeout.</summary>
        public static HttpClient CreateClient()
        {
            var handler = new HttpClientHandler { AllowAutoRedirect = false, UseCookies = false, UseProxy = false };
            return new HttpClient(handler) { Timeout = Timeout.InfiniteTimeSpan };
        }

        internal static Task<GamedResponse> SendUsualAsync(GamedRequest request, CancellationToken cancel) =>
            Usual.Value.SendAsync(request, cancel);

        /// <summary>Sends a request. Throws UntrustedAddressException for an invalid certificate, IOException without a
        /// response, TimeoutException, OperationCanceledException.</summary>
        public async Task<GamedResponse> SendAsync(GamedRequest request, CancellationToken cancel)
        {
            using (CancellationTokenSource step = CancellationTokenSource.CreateLinkedTokenSource(cancel))
            {
                TimeSpan timeout = request.Timeout;
                step.CancelAfter(timeout);
                PlatformHttp.AllowWaits(ServicePointManager.FindServicePoint(new Uri(request.Url)));
                try
                {
                    HttpRequestMessage message = MessageOf(request, () => step.CancelAfter(timeout));
                    return await AnswerAsync(client.SendAsync(message, HttpCompletionOption.ResponseHeadersRead,
                        step.Token), request).ConfigureAwait(false);
                }
                catch (Exception e)
                {
                    PlatformHttp.ThrowCause(e, request, step, cancel);
                    if (e is HttpRequestException)
                        throw new IOException(e.Message, e);
                    throw;
                }
            }
        }

        static HttpRequestMessage MessageOf(GamedRequest request, Action sent)
        {
            var message = new HttpRequestMessage(new HttpMethod(request.Method), request.Url);
            if (request.Method == "DELETE")
                message.Headers.ConnectionClose = true;  // on a kept connection HttpClient may send it twice
            // HttpClient fails to send a body to a server that has refused it and ends the connection, and loses the
            // response. It has to wait for 100 Continue (RFC 9110, 10.1.1), at most a second, before it sends a body
            // that the server would not read whole.
            message.Headers.ExpectContinue = request.Body != null && request.Body.Length > Upload.Part;
            byte[] body = request.Body ?? (request.Method == "GET" || request.Method == "HEAD" ? null : new byte[0]);
            if (body != null)
                message.Content = new Upload(body, sent);
            foreach (KeyValuePair<string, string> header in request.Headers)
                if (header.Key != "Content-Type")
                    message.Headers.TryAddWithoutValidation(header.Key, header.Value);
                else if (body != null)
                    message.Content.Headers.TryAddWithoutValidation(header.Key, header.Value);
            return message;
        }

        static async Task<GamedResponse> AnswerAsync(Task<HttpResponseMessage> sent, GamedRequest request)
        {
            HttpResponseMessage answer = await sent.ConfigureAwait(false);
            HttpRequestMessage final = answer.RequestMessage;
            Uri asked = new Uri(request.Url), last = final == null ? asked : final.RequestUri;
            if (last.Scheme != asked.Scheme || last.Authority != asked.Authority)
            {
                answer.Dispose();
                throw new UntrustedAddressException("The HttpClient of this game follows redirects, to "
                    + last.GetLeftPart(UriPartial.Authority) + ".");
            }
            Stream body = await answer.Content.ReadAsStreamAsync().ConfigureAwait(false);
            var headers = answer.Headers.Concat(answer.Content.Headers)
                .Select(field => new KeyValuePair<string, string>(field.Key, string.Join(", ", field.Value)));
            return new GamedResponse((int)answer.StatusCode, headers.ToArray(), body, answer.Dispose);
        }

        /// <summary>A body that reports each sent part.</summary>
        sealed class Upload : HttpContent
        {
            internal const int Part = 1 << 16;

            readonly byte[] data;
            readonly Action sent;

            internal Upload(byte[] data, Action sent)
            {
                this.data = data;
                this.sent = sent;
            }

            protected override async Task SerializeToStreamAsync(Stream stream, TransportContext context)
            {
                for (int at = 0; at < data.Length; at += Part)
                {
                    await stream.WriteAsync(data, at, Math.Min(Part, data.Length - at)).ConfigureAwait(false);
                    try
                    {
                        sent();
                    }
                    catch (ObjectDisposedException)
                    {
                        // the server has responded already
                    }
                }
            }

            protected override bool TryComputeLength(out long length)
            {
                length = data.Length;
                return true;
            }
        }
    }

    public sealed partial class GamedRequest
    {
        /// <summary>How long one step on the network may take.</summary>
        public TimeSpan Timeout => TimeSpan.FromSeconds(TimeoutSeconds);
    }

    public sealed partial class GamedOptions
    {
        /// <summary>The timeout of each step on the network; Timeout.InfiniteTimeSpan for none.</summary>
        public TimeSpan Timeout
        {
            get { return TimeSpan.FromSeconds(TimeoutSeconds); }
            set { TimeoutSeconds = Typed.Seconds(value); }
        }

        /// <summary>How long to wait for the browser's return before offering a code; Timeout.InfiniteTimeSpan
        /// offers none.</summary>
        public TimeSpan ReturnTimeout
        {
            get { return TimeSpan.FromSeconds(ReturnSeconds); }
            set { ReturnSeconds = Typed.Seconds(value); }
        }

        partial void UseToday() => Send = ClientHttp.SendUsualAsync;
    }

    public partial class GamedError
    {
        /// <summary>How long the server asks to wait, or null.</summary>
        public TimeSpan? RetryDelay => RetryAfter == null ? (TimeSpan?)null : TimeSpan.FromSeconds(RetryAfter.Value);
    }

    // --- Texts as values ---------------------------------------------------------------------------------------------

    /// <summary>Values of the protocol's texts.</summary>
    static class Typed
    {
        /// <summary>The seconds of a time that is not limited: .NET has a negative one for it.</summary>
        const double Unlimited = 2e6;  // timers of .NET take less than 2 ^ 31 milliseconds

        static readonly Regex Instants = new Regex(@"\A[0-9]{4}-[0-9][0-9]-[0-9][0-9]T");

        internal static double Seconds(TimeSpan time) =>
            time < TimeSpan.Zero ? Unlimited : Math.Min(time.TotalSeconds, Unlimited);

        /// <summary>Returns an instant (RFC 3339); null for a text that is not one.</summary>
        internal static DateTimeOffset? Time(string text)
        {
            DateTimeOffset time;
            bool parsed = DateTimeOffset.TryParse(text, CultureInfo.InvariantCulture, DateTimeStyles.AssumeUniversal,
                out time);
            return parsed && Instants.IsMatch(text) ? time : (DateTimeOffset?)null;
        }

        /// <summary>Returns the value with this name, "in_step" for InStep; the first one for a name that this client
        /// does not know.</summary>
        internal static T Value<T>(string text) where T : struct
        {
            string name = (text ?? "").Replace("_", "");
            string known = Enum.GetNames(typeof(T)).FirstOrDefault(
                each => string.Equals(each, name, StringComparison.OrdinalIgnoreCase));
            return known == null ? default(T) : (T)Enum.Parse(typeof(T), known);
        }
    }

    /// <summary>The way in which a server knows its players.</summary>
    public enum SignInMode
    {
        /// <summary>One that this client does not know.</summary>
        Other,

        /// <summary>By providers.</summary>
        OAuth,

        /// <summary>By names and passwords of this server.</summary>
        Local,
    }

    /// <summary>The sessions that a sign-out ends.</summary>
    public enum SessionScope
    {
        /// <summary>The one of this device.</summary>
        This,

        /// <summary>All but the one of this device.</summary>
        Others,

        /// <summary>Every one of the player.</summary>
        All,
    }

    /// <summary>The origin of a version.</summary>
    public enum VersionKind
    {
        /// <summary>One that this client does not know.</summary>
        Other,

        /// <summary>A device wrote it.</summary>
        Write,

        /// <summary>An older version was restored.</summary>
        Restore,

        /// <summary>A conflict copy: it lost against another write.</summary>
        Conflict,

        /// <summary>The save was deleted.</summary>
        Delete,
    }

    /// <summary>The relation of a slot on this device and at the server.</summary>
    public enum SlotState
    {
        /// <summary>This device has not received the server's first list yet.</summary>
        Unknown,

        /// <summary>Device and server have the same save.</summary>
        InStep,

        /// <summary>An upload or a download is pending.</summary>
        Waiting,

        /// <summary>Another device has saved, or deleted: ReadAsync returns the result.</summary>
        Newer,

        /// <summary>This device and another have both changed the save: the player has to choose.</summary>
        Conflict,

        /// <summary>The server rejects the save: see Problem; the bytes are kept here.</summary>
        Refused,
    }

    /// <summary>What the server has of a save in conflict.</summary>
    public enum ConflictReason
    {
        /// <summary>Another save.</summary>
        Changed,

        /// <summary>A delete.</summary>
        Deleted,

        /// <summary>Nothing: it was erased, or the server has an old backup.</summary>
        Lost,
    }

    /// <summary>A part of a download.</summary>
    public enum DownloadStage
    {
        /// <summary>For files on this device.</summary>
        Looking,

        /// <summary>The missing files from the server.</summary>
        Fetching,

        /// <summary>The release becomes the current one.</summary>
        Finishing,
    }

    public sealed partial class Policy
    {
        /// <summary>The Mode as a value.</summary>
        public SignInMode SignInMode => Typed.Value<SignInMode>(Mode);
    }

    public sealed partial class SaveInfo
    {
        /// <summary>The time of the write by the server's clock, or null.</summary>
        public DateTimeOffset? ModifiedTime => Typed.Time(Modified);
    }

    public sealed partial class SaveVersion
    {
        /// <summary>The Kind as a value.</summary>
        public VersionKind VersionKind => Typed.Value<VersionKind>(Kind);

        /// <summary>The latest time of its deletion; null while only newer versions can replace it.</summary>
        public DateTimeOffset? ExpiresTime => Typed.Time(Expires);
    }

    public sealed partial class DeviceSession
    {
        /// <summary>The time of the sign-in, or null.</summary>
        public DateTimeOffset? CreatedTime => Typed.Time(CreatedAt);

        /// <summary>The time of the last sign-in or refresh, or null.</summary>
        public DateTimeOffset? LastUsedTime => Typed.Time(LastUsedAt);

        /// <summary>The time of its end without another refresh, or null.</summary>
        public DateTimeOffset? ExpiresTime => Typed.Time(ExpiresAt);
    }

    public sealed partial class LinkedIdentity
    {
        /// <summary>The time of the first sign-in or of the link, or null.</summary>
        public DateTimeOffset? LinkedTime => Typed.Time(LinkedAt);

        /// <summary>The time of the last sign-in, or null.</summary>
        public DateTimeOffset? LastUsedTime => Typed.Time(LastUsedAt);
    }

    public sealed partial class SyncStatus
    {
        /// <summary>The State as a value.</summary>
        public SlotState SlotState => Typed.Value<SlotState>(State);

        /// <summary>The time of the save, to show, or null.</summary>
        public DateTimeOffset? ModifiedTime => Typed.Time(Modified);
    }

    public sealed partial class OtherSave
    {
        /// <summary>The time of the save, to show, or null.</summary>
        public DateTimeOffset? ModifiedTime => Typed.Time(Modified);
    }

    public sealed partial class OtherPlayer
    {
        /// <summary>The time of the newest save, to show, or null.</summary>
        public DateTimeOffset? ModifiedTime => Typed.Time(Modified);
    }

    public sealed partial class SyncSide
    {
        /// <summary>The time of the save, to show, or null.</summary>
        public DateTimeOffset? ModifiedTime => Typed.Time(Modified);
    }

    public sealed partial class SyncConflict
    {
        /// <summary>The Reason as a value.</summary>
        public ConflictReason ConflictReason => Typed.Value<ConflictReason>(Reason);
    }

    public sealed partial class AssetProgress
    {
        /// <summary>The Stage as a value.</summary>
        public DownloadStage DownloadStage => Typed.Value<DownloadStage>(Stage);
    }

    // --- The player --------------------------------------------------------------------------------------------------

    /// <summary>Numbers of a player's saves, as used or as allowed; null if the server does not state one.</summary>
    public sealed class SaveAmounts
    {
        internal SaveAmounts(IDictionary<string, object> value)
        {
            Slots = Members.Maybe<long?>(value, "slots");
            Bytes = Members.Maybe<long?>(value, "bytes");
            HistoryBytes = Members.Maybe<long?>(value, "history_bytes");
        }

        /// <summary>The slots that have a save.</summary>
        public long? Slots { get; private set; }

        /// <summary>The bytes of the current saves.</summary>
        public long? Bytes { get; private set; }

        /// <summary>The bytes of older versions and conflict copies.</summary>
        public long? HistoryBytes { get; private set; }
    }

    /// <summary>The player, with usage and limits (docs/protocol.md: Limits).</summary>
    public sealed class PlayerSummary
    {
        internal PlayerSummary(IDictionary<string, object> value)
        {
            var player = Members.Of<Dictionary<string, object>>(value, "player");
            var limits = Members.Maybe<Dictionary<string, object>>(value, "limits");
            PlayerId = Members.Of<string>(player, "id");
            Name = Members.Maybe<string>(player, "name");
            IsOwner = Members.Maybe<bool>(player, "owner");
            ServerTime = Typed.Time(Members.Maybe<string>(value, "time"));
            Usage = new SaveAmounts(Members.Maybe<Dictionary<string, object>>(value, "usage"));
            Limits = new SaveAmounts(limits);
            SaveBytes = Members.Maybe<long?>(limits, "save_bytes");
            WritesPerMinute = Members.Maybe<long?>(limits, "writes_per_minute");
            All = value;
        }

        /// <summary>`ply_...`</summary>
        public string PlayerId { get; private set; }

        /// <summary>The name that games show, or null.</summary>
        public string Name { get; private set; }

        /// <summary>True for the owner of the server.</summary>
        public bool IsOwner { get; private set; }

        /// <summary>The server's clock, or null.</summary>
        public DateTimeOffset? ServerTime { get; private set; }

        /// <summary>What the player's saves use.</summary>
        public SaveAmounts Usage { get; private set; }

        /// <summary>What they may use.</summary>
        public SaveAmounts Limits { get; private set; }

        /// <summary>The largest save in bytes, or null.</summary>
        public long? SaveBytes { get; private set; }

        /// <summary>The number of writes per minute that the server accepts, or null; 0: any number.</summary>
        public long? WritesPerMinute { get; private set; }

        /// <summary>Every member of the answer.</summary>
        public IDictionary<string, object> All { get; private set; }
    }

    public sealed partial class GamedClient
    {
        /// <summary>Reads the player, usage and limits: the typed form of WhoamiAsync.</summary>
        public async Task<PlayerSummary> GetPlayerAsync(CancellationToken cancel = default(CancellationToken)) =>
            new PlayerSummary(await WhoamiAsync(cancel).ConfigureAwait(false));

        /// <summary>Signs out: see the form with a text.</summary>
        public Task<bool> SignOutAsync(SessionScope scope, CancellationToken cancel = default(CancellationToken))
        {
            if (!Enum.IsDefined(typeof(SessionScope), scope))
                throw new ArgumentOutOfRangeException("scope");
            return SignOutAsync(scope.ToString().ToLowerInvariant(), cancel);
        }

        /// <summary>Requests the changes: see the form with seconds. `wait` is at most 25 seconds.</summary>
        public Task<Changes> ChangesAsync(string since, TimeSpan wait,
            CancellationToken cancel = default(CancellationToken), int? limit = null) =>
            ChangesAsync(since, (int)Math.Ceiling(wait.TotalSeconds), cancel, limit);
    }

    // --- Offline play ------------------------------------------------------------------------------------------------

    /// <summary>The argument of <see cref="Sync.Changed"/>.</summary>
    public sealed class SlotChangedEventArgs : EventArgs
    {
        internal SlotChangedEventArgs(SyncStatus status)
        {
            Status = status;
        }

        /// <summary>The slot, as it is now.</summary>
        public SyncStatus Status { get; private set; }
    }

    /// <summary>The argument of <see cref="Sync.ProblemChanged"/>.</summary>
    public sealed class ProblemChangedEventArgs : EventArgs
    {
        internal ProblemChangedEventArgs(GamedError problem)
        {
            Problem = problem;
        }

        /// <summary>Null once the server can be reached again.</summary>
        public GamedError Problem { get; private set; }
    }

    public sealed partial class Sync
    {
        /// <summary>SendAsync, or the loop of Start or RunAsync, has found a slot changed, here or at the server.
        /// Raised on a thread of the pool; the call or loop continues after the handlers. An exception of theirs does
        /// not end it: a thread of the pool throws it.</summary>
        public event EventHandler<SlotChangedEventArgs> Changed;

        /// <summary>The code of Problem has changed: for a display that says "offline". Raised on a thread of the
        /// pool, but not for the end of this Sync. An exception of a handler is thrown on a thread of the
        /// pool.</summary>
        public event EventHandler<ProblemChangedEventArgs> ProblemChanged;

        partial void OnChanged(SyncStatus status) => Changed?.Invoke(this, new SlotChangedEventArgs(status));

        partial void OnProblem(GamedError before, GamedError now)
        {
            if (before?.Code != now?.Code)
                ProblemChanged?.Invoke(this, new ProblemChangedEventArgs(now));
        }

        /// <summary>Waits for the first list: see the form with seconds.</summary>
        public Task<bool> ReadyAsync(TimeSpan within, CancellationToken cancel = default(CancellationToken)) =>
            ReadyAsync(Typed.Seconds(within), cancel);

        /// <summary>Closes: see the form with seconds.</summary>
        public Task CloseAsync(TimeSpan within) => CloseAsync(Typed.Seconds(within));

        /// <summary>Closes as Dispose does; ends when it is done. For `await using` of C# 8.</summary>
        public Task DisposeAsync() => CloseAsync(ExitSeconds);
    }

    // --- Downloads ---------------------------------------------------------------------------------------------------

    public sealed partial class Assets
    {
        /// <summary>Opens the folder of the releases without waiting for the disk; `folder` as in the
        /// constructor.</summary>
        public static Task<Assets> OpenAsync(GamedClient client, string folder = null) =>
            Task.Run(() => new Assets(client, folder));

        /// <summary>Calls Switch without waiting for the disk.</summary>
        public Task<LocalRelease> SwitchAsync() => Task.Run(() => Switch());

        /// <summary>Downloads a release: see DownloadAsync. A Progress reports on the thread that created it.</summary>
        public Task<Manifest> DownloadWithProgressAsync(string channel, IProgress<AssetProgress> progress,
            bool verify = false, CancellationToken cancel = default(CancellationToken)) =>
            DownloadAsync(channel, progress == null ? (Action<AssetProgress>)null : progress.Report, verify,
                cancel);
    }
}
