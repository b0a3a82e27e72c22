// The conformance suite's driver of the C# client (clients/conformance/README.md: The driver). Not for games.

using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Runtime.InteropServices;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;
using Gamed;

/// <summary>A person whose questions go to the suite.</summary>
sealed class Player : IPerson
{
    readonly string client;
    readonly BlockingCollection<string> codes = new BlockingCollection<string>();

    internal Player(string client)
    {
        this.client = client;
    }

    internal Action ShowCode { get; private set; }

    internal void Type(string code)
    {
        codes.Add(code);
    }

    /// <summary>The error that the player was shown last.</summary>
    internal GamedError Shown { get; private set; }

    public Task<string> ChooseProviderAsync(IList<LoginProvider> providers, CancellationToken cancel)
    {
        Program.Say(new Dictionary<string, object>
        {
            { "event", "choose_provider" }, { "client", client },
            { "providers", providers.Select(provider => provider.Name) },
            { "labels", providers.Select(provider => provider.Label) },
        });
        return Task.FromResult(providers.Last().Name);
    }

    public void BrowserOpened(string url, bool opened, string qrUrl)
    {
        Program.Say(new Dictionary<string, object>
        {
            { "event", "open" }, { "client", client }, { "url", url }, { "qr_url", qrUrl },
        });
    }

    public void Problem(GamedError error)
    {
        Shown = error;
    }

    public Task<string> FinishCodeAsync(Action showCode, int? attemptsLeft, CancellationToken cancel)
    {
        ShowCode = showCode;
        Program.Say(new Dictionary<string, object>
        {
            { "event", "finish_code" }, { "client", client }, { "show_code", showCode != null },
            { "attempts_left", attemptsLeft },
        });
        return Task.Factory.StartNew(() => codes.Take(cancel), cancel, TaskCreationOptions.LongRunning,
            TaskScheduler.Default);
    }
}

/// <summary>One open client with its objects.</summary>
sealed class Seat
{
    readonly string name;
    readonly double factor;

    internal Seat(string name, Args how)
    {
        this.name = name;
        factor = how.Number("pauses") ?? 1;
        Shift = how.Number("clock_shift") ?? 0;
        var options = new GamedOptions { App = how.Text("app") ?? "gamed", Folder = how.Text("folder") };
        Func<double> now = options.Now;
        options.Now = () => now() + Shift;
        options.Sleep = PauseAsync;
        Face.SetTimes(options, how.Number("timeout_seconds") ?? options.TimeoutSeconds,
            how.Number("return_seconds") ?? options.ReturnSeconds);
        options.DeviceName = how.Text("device_name") ?? options.DeviceName;
        options.Locale = how.Text("locale") ?? options.Locale;
        Client = new GamedClient(how.Text("server"), options);
        Player = new Player(name);
    }

    internal double Shift { get; set; }

    internal GamedClient Client { get; private set; }

    internal Player Player { get; set; }

    internal Sync Sync { get; set; }

    /// <summary>The conflict that was shown last, by slot.</summary>
    internal Dictionary<string, SyncConflict> Conflicts = new Dictionary<string, SyncConflict>();

    readonly ConcurrentDictionary<string, CancellationTokenSource> cancellations =
        new ConcurrentDictionary<string, CancellationTokenSource>();

    internal CancellationTokenSource Cancellation(string name)
    {
        return cancellations.GetOrAdd(name, made => new CancellationTokenSource());
    }

    /// <summary>Ends sync_run.</summary>
    internal CancellationTokenSource StopRun = new CancellationTokenSource();

    internal void Changed(SyncStatus status)
    {
        Program.Say(new Dictionary<string, object>
        {
            { "event", "sync_changed" }, { "client", name }, { "slot", status.Slot }, { "state", Face.Text(status) },
        });
    }

    internal void CloseSync()
    {
        if (Sync != null)
            Sync.Dispose();
        Sync = null;
    }

    Task PauseAsync(TimeSpan time, CancellationToken cancel)
    {
        Program.Say(new Dictionary<string, object>
        {
            { "event", "pause" }, { "client", name }, { "seconds", time.TotalSeconds },
        });
        return Task.Delay(TimeSpan.FromSeconds(time.TotalSeconds * factor), cancel);
    }

    internal Player Again()
    {
        return Player = new Player(name);
    }
}

/// <summary>A command's arguments; null and missing are the same.</summary>
sealed class Args
{
    readonly IDictionary<string, object> values;

    internal Args(IDictionary<string, object> values)
    {
        this.values = values;
    }

    internal object this[string name]
    {
        get { return values.ContainsKey(name) ? values[name] : null; }
    }

    internal string Text(string name)
    {
        return this[name] as string;
    }

    internal double? Number(string name)
    {
        return this[name] == null ? (double?)null : Convert.ToDouble(this[name]);
    }

    internal IDictionary<string, object> Meta
    {
        get { return this["meta"] as IDictionary<string, object>; }
    }

    internal string ContentType
    {
        get { return Text("content_type") ?? "application/octet-stream"; }
    }

    internal byte[] Data
    {
        get { return Convert.FromBase64String(Text("data")); }
    }
}

sealed class Unsupported : Exception
{
    internal Unsupported(string what) : base(what)
    {
    }
}

#if GAMED_NET
/// <summary>The calls that GamedNet.cs has in another form.</summary>
static class Face
{
    static string Text<T>(T value) where T : struct
    {
        return Regex.Replace(value.ToString(), "(?<=[a-z])([A-Z])", "_$1").ToLowerInvariant();
    }

    internal static string Text(SyncStatus status)
    {
        return Text(status.SlotState);
    }

    internal static string Text(SyncConflict conflict)
    {
        return Text(conflict.ConflictReason);
    }

    internal static string Text(SaveVersion version)
    {
        return Text(version.VersionKind);
    }

    internal static string Text(Policy policy)
    {
        return policy.SignInMode.ToString().ToLowerInvariant();
    }

    internal static void SetTimes(GamedOptions options, double timeout, double untilReturn)
    {
        options.Timeout = TimeSpan.FromSeconds(timeout);
        options.ReturnTimeout = TimeSpan.FromSeconds(untilReturn);
    }

    internal static Task<bool> SignOutAsync(GamedClient client, string scope)
    {
        return client.SignOutAsync((SessionScope)Enum.Parse(typeof(SessionScope), scope, true));
    }

    internal static async Task<IDictionary<string, object>> PlayerAsync(GamedClient client, CancellationToken cancel)
    {
        PlayerSummary player = await client.GetPlayerAsync(cancel);
        return player.All;
    }

    internal static Task<Changes> ChangesAsync(GamedClient client, string since, int wait, int? limit,
        CancellationToken cancel)
    {
        return client.ChangesAsync(since, TimeSpan.FromSeconds(wait), cancel, limit);
    }

    internal static Task<Assets> OpenAsync(GamedClient client, string folder)
    {
        return Assets.OpenAsync(client, folder);
    }

    internal static Task<LocalRelease> SwitchAsync(Assets assets)
    {
        return assets.SwitchAsync();
    }

    internal static Task<Manifest> DownloadAsync(Assets assets, string channel, CancellationToken cancel)
    {
        return assets.DownloadWithProgressAsync(channel, new Progress<AssetProgress>(), cancel: cancel);
    }

    internal static Task CloseAsync(Sync sync, double within)
    {
        return sync.CloseAsync(TimeSpan.FromSeconds(within));
    }

    internal static Task<bool> ReadyAsync(Sync sync, double within)
    {
        return sync.ReadyAsync(TimeSpan.FromSeconds(within));
    }

    internal static Sync Heard(Sync sync, Action<SyncStatus> changed)
    {
        sync.Changed += (sender, e) => changed(e.Status);
        return sync;
    }

    internal static void Start(Sync sync, Action<SyncStatus> changed)
    {
        sync.Start();
    }

    internal static Task RunAsync(Sync sync, Action<SyncStatus> changed, CancellationToken stop)
    {
        return sync.RunAsync(null, stop);
    }
}
#else
/// <summary>The calls that GamedNet.cs has in another form.</summary>
static class Face
{
    internal static string Text(SyncStatus status)
    {
        return status.State;
    }

    internal static string Text(SyncConflict conflict)
    {
        return conflict.Reason;
    }

    internal static string Text(SaveVersion version)
    {
        return version.Kind;
    }

    internal static string Text(Policy policy)
    {
        return policy.Mode;
    }

    internal static void SetTimes(GamedOptions options, double timeout, double untilReturn)
    {
        options.TimeoutSeconds = timeout;
        options.ReturnSeconds = untilReturn;
    }

    internal static Task<bool> SignOutAsync(GamedClient client, string scope)
    {
        return client.SignOutAsync(scope);
    }

    internal static async Task<IDictionary<string, object>> PlayerAsync(GamedClient client, CancellationToken cancel)
    {
        return await client.WhoamiAsync(cancel);
    }

    internal static Task<Changes> ChangesAsync(GamedClient client, string since, int wait, int? limit,
        CancellationToken cancel)
    {
        return client.ChangesAsync(since, wait, cancel, limit);
    }

    internal static Task<Assets> OpenAsync(GamedClient client, string folder)
    {
        return Task.FromResult(new Assets(client, folder));
    }

    internal static Task<LocalRelease> SwitchAsync(Assets assets)
    {
        return Task.FromResult(assets.Switch());
    }

    internal static Task<Manifest> DownloadAsync(Assets assets, string channel, CancellationToken cancel)
    {
        return assets.DownloadAsync(channel, cancel: cancel);
    }

    internal static Task CloseAsync(Sync sync, double within)
    {
        return sync.CloseAsync(within);
    }

    internal static Task<bool> ReadyAsync(Sync sync, double within)
    {
        return sync.ReadyAsync(within);
    }

    internal static Sync Heard(Sync sync, Action<SyncStatus> changed)
    {
        return sync;
    }

    internal static void Start(Sync sync, Action<SyncStatus> changed)
    {
        sync.Start(changed);
    }

    internal static Task RunAsync(Sync sync, Action<SyncStatus> changed, CancellationToken stop)
    {
        return sync.RunAsync(changed, stop);
    }
}
#endif

static class Program
{
    static readonly string[] Features =
    {
        "saves", "sync", "assets", "loopback", "parallel", "shared_store", "clock", "timeout", "names", "tickets",
        "ensure", "providers", "qr", "account", "commit", "return_uri", "loop", "pages", "locale", "delete_newer",
        "other_players", "confirm", "cancel", "stop_at_once",
    };

    static readonly string[] AccountCommands =
    {
        "sessions", "end_session", "identities", "link", "unlink", "delete_player", "erase_saves", "export",
    };

    static readonly string[] SavesCommands =
    {
        "list_saves", "changes", "get", "put", "delete", "versions", "versions_page", "version", "restore", "dismiss",
        "commit",
    };

    static readonly string[] Choices = { "sync_side", "sync_keep_mine", "sync_keep_theirs", "sync_merged" };

    static readonly ConcurrentDictionary<string, Seat> Seats = new ConcurrentDictionary<string, Seat>();
    static readonly Dictionary<string, object> Nothing = new Dictionary<string, object>();
    static readonly StreamWriter Out = new StreamWriter(Console.OpenStandardOutput(), new UTF8Encoding(false));

    static void Main()
    {
        ThreadPool.SetMinThreads(32, 32);
        Say(new Dictionary<string, object> { { "event", "hello" }, { "language", "C#" }, { "features", Features } });
        var lines = new StreamReader(Console.OpenStandardInput(), new UTF8Encoding(false));
        for (string line; (line = lines.ReadLine()) != null;)
        {
            var command = (IDictionary<string, object>)Json.Parse(line);
            Task.Run(() => AnswerAsync(command));
        }
        Environment.Exit(0);
    }

    internal static void Say(IDictionary<string, object> line)
    {
        lock (Out)
        {
            Out.Write(Json.Write(line) + "\n");
            Out.Flush();
        }
    }

    static async Task AnswerAsync(IDictionary<string, object> command)
    {
        var answer = new Dictionary<string, object> { { "id", command["id"] } };
        try
        {
            answer["ok"] = await PerformAsync(new Args(command));
        }
        catch (GamedError error)
        {
            answer["error"] = ErrorOf(error);
        }
        catch (OperationCanceledException)
        {
            answer["error"] = new Dictionary<string, object>
            {
                { "code", "cancelled" }, { "kind", "Cancelled" }, { "detail", "" }, { "status", 0 },
            };
        }
        catch (Unsupported error)
        {
            answer["error"] = Failure("unsupported", error.Message);
        }
        catch (Exception error)
        {
            answer["error"] = Failure("driver_failed", error.ToString());
        }
        Say(answer);
    }

    static object Failure(string code, string detail)
    {
        return new Dictionary<string, object> { { "code", code }, { "kind", "Driver" }, { "detail", detail } };
    }

    static object ErrorOf(GamedError error)
    {
        var shown = new Dictionary<string, object>
        {
            { "code", error.Code }, { "kind", error.GetType().Name.Replace("Exception", "") },
            { "detail", error.Detail }, { "status", error.Status },
        };
        if (error.RetryAfter != null)
            shown["retry_after"] = error.RetryAfter.Value;
        var proof = error as InvalidProof;
        if (proof != null)
            shown["attempts_left"] = proof.AttemptsLeft;
        var conflict = error as Conflict;
        if (conflict != null)
        {
            shown["base"] = Shown(conflict.Base);
            shown["current"] = Shown(conflict.Current);
            shown["yours"] = Shown(conflict.Yours);
            shown["conflicts"] = conflict.Slots.Select(Shown);
        }
        return shown;
    }

    static async Task<object> PerformAsync(Args how)
    {
        string name = how.Text("client") ?? "", todo = how.Text("do");
        Seat seat;
        if (todo == "open")
        {
            Seats[name] = seat = new Seat(name, how);
            return new Dictionary<string, object> { { "origin", seat.Client.Origin.ToString() } };
        }
        if (todo == "close")
        {
            if (Seats.TryRemove(name, out seat))
            {
                seat.CloseSync();
                seat.Player.Type(null);
            }
            return Nothing;
        }
        if (!Seats.TryGetValue(name, out seat))
            throw new Unsupported("no client " + name);
        if (SavesCommands.Contains(todo))
            return await SavesAsync(seat, todo, how);
        if (AccountCommands.Contains(todo))
            return await AccountAsync(seat, todo, how);
        if (todo == "download")
            return await DownloadAsync(seat, how);
        if (todo != null && todo.StartsWith("sync_"))
            return await SyncsAsync(seat, todo, how);
        return await SignInsAsync(seat, todo, how);
    }

    static async Task<object> SignInsAsync(Seat seat, string todo, Args how)
    {
        switch (todo)
        {
            case "clock":
                seat.Shift = how.Number("shift").Value;
                return Nothing;
            case "cancel":
                seat.Cancellation(how.Text("cancellation")).Cancel();
                return Nothing;
            case "policy":
                Policy policy = await seat.Client.PolicyAsync();
                return new Dictionary<string, object>
                {
                    { "mode", Face.Text(policy) }, { "providers", policy.Providers },
                };
            case "providers":
                IList<LoginProvider> providers = await seat.Client.ProvidersAsync();
                return new Dictionary<string, object> { { "providers", providers.Select(Shown) } };
            case "sign_in":
                await seat.Client.SignInAsync(seat.Again(), How(how));
                return await SignedInAsync(seat);
            case "ensure_signed_in":
                Player player = seat.Again();
                bool ensured = await seat.Client.EnsureSignedInAsync(player, How(how));
                return new Dictionary<string, object>
                {
                    { "signed_in", ensured }, { "problem", player.Shown == null ? null : ErrorOf(player.Shown) },
                };
            case "returned":
                seat.Client.Returned(how.Text("url"));
                return Nothing;
            case "finish_code":
                seat.Player.Type(how.Text("code"));
                return Nothing;
            case "show_code":
                if (seat.Player.ShowCode != null)
                    seat.Player.ShowCode();
                return Nothing;
            case "cancel_sign_in":
                await seat.Client.CancelSignInAsync();
                return Nothing;
            case "signed_in":
                return await SignedInAsync(seat);
            case "sign_out":
                bool notified = await Face.SignOutAsync(seat.Client, how.Text("scope") ?? "this");
                return new Dictionary<string, object> { { "server_notified", notified } };
            case "set_name":
                return new Dictionary<string, object>
                {
                    { "name", await seat.Client.SetNameAsync(how.Text("name")) },
                };
            case "ticket":
                return new Dictionary<string, object>
                {
                    { "ticket", await seat.Client.TicketAsync(how.Text("audience"), how.Text("nonce")) },
                };
            case "whoami":
                return await Face.PlayerAsync(seat.Client, Token(seat, how));
            default:
                throw new Unsupported(todo);
        }
    }

    static CancellationToken Token(Seat seat, Args how)
    {
        string name = how.Text("cancellation");
        return name == null ? CancellationToken.None : seat.Cancellation(name).Token;
    }

    static SignInOptions How(Args how)
    {
        return new SignInOptions
        {
            Provider = how.Text("provider"), OpenBrowser = url => true,
            Loopback = (how["loopback"] as bool?) ?? true, ReturnUri = how.Text("return_uri"),
        };
    }

    static async Task<object> AccountAsync(Seat seat, string todo, Args how)
    {
        GamedClient client = seat.Client;
        switch (todo)
        {
            case "sessions":
                IEnumerable<DeviceSession> sessions = await client.ListSessionsAsync();
                return new Dictionary<string, object> { { "sessions", sessions.Select(info => info.ToJson()) } };
            case "end_session":
                await client.EndSessionAsync(how.Text("session_id"));
                return Nothing;
            case "identities":
                IEnumerable<LinkedIdentity> identities = await client.ListIdentitiesAsync();
                return new Dictionary<string, object> { { "identities", identities.Select(info => info.ToJson()) } };
            case "link":
                string provider = await client.LinkAsync(seat.Again(), how.Text("provider"), How(how));
                return new Dictionary<string, object> { { "provider", provider } };
            case "unlink":
                await client.UnlinkAsync(how.Text("provider"));
                return Nothing;
            case "delete_player":
                await client.DeletePlayerAsync();
                return Nothing;
            case "erase_saves":
                await client.EraseSavesAsync();
                return Nothing;
            case "export":
                long size = await client.ExportAsync(how.Text("file"), Token(seat, how));
                return new Dictionary<string, object> { { "size", size } };
            default:
                throw new Unsupported(todo);
        }
    }

    static async Task<object> SignedInAsync(Seat seat)
    {
        Credential held = await seat.Client.CredentialAsync();
        if (held == null)
            return new Dictionary<string, object> { { "signed_in", false } };
        return new Dictionary<string, object>
        {
            { "signed_in", true }, { "player_id", held.PlayerId }, { "session_id", held.SessionId },
        };
    }

    static async Task<object> SavesAsync(Seat seat, string todo, Args how)
    {
        GamedClient client = seat.Client;
        string slot = how.Text("slot");
        Base on = how.Text("base");
        long number = (how["number"] as long?) ?? 0;
        switch (todo)
        {
            case "list_saves":
                return new Dictionary<string, object> { { "saves", (await client.ListSavesAsync()).Select(Shown) } };
            case "changes":
                Changes found = await Face.ChangesAsync(client, how.Text("since"), (int)(how.Number("wait") ?? 0),
                    (int?)how.Number("limit"), Token(seat, how));
                return new Dictionary<string, object>
                {
                    { "cursor", found.Cursor }, { "whole", found.Whole }, { "more", found.More },
                    { "saves", found.Saves.Select(Shown).Concat(found.Deletions.Select(Shown)) },
                };
            case "get":
                return Shown(await client.GetAsync(slot, how.Text("unless")));
            case "put":
                return Shown(await client.PutAsync(slot, how.Data, on, how.ContentType, how.Meta, Token(seat, how)));
            case "delete":
                await client.DeleteAsync(slot, on);
                return Nothing;
            case "versions":
                return new Dictionary<string, object>
                {
                    { "versions", (await client.VersionsAsync(slot)).Select(Shown) },
                };
            case "versions_page":
                VersionsPage page = await client.VersionsPageAsync(slot, (long?)how.Number("before"),
                    (int?)how.Number("limit"));
                return new Dictionary<string, object>
                {
                    { "versions", page.Versions.Select(Shown) }, { "more", page.More },
                };
            case "version":
                return Shown(await client.VersionAsync(slot, number));
            case "restore":
                return Shown(await client.RestoreAsync(slot, number, on));
            case "dismiss":
                await client.DismissAsync(slot, number);
                return Nothing;
            case "commit":
                IEnumerable<object> writes = (IEnumerable<object>)how["writes"];
                IList<CommitResult> results = await client.CommitAsync(writes.Select(WriteOf));
                return new Dictionary<string, object> { { "saves", results.Select(Shown) } };
            default:
                throw new Unsupported(todo);
        }
    }

    static SlotWrite WriteOf(object write)
    {
        var how = new Args((IDictionary<string, object>)write);
        if (how["delete"] as bool? == true)
            return SlotWrite.Deletion(how.Text("slot"), how.Text("base"));
        return new SlotWrite(how.Text("slot"), how.Data, how.Text("base"), how.ContentType, how.Meta);
    }

    [DllImport("libc")]
    static extern int symlink(byte[] target, byte[] link);

    /// <summary>Downloads a release and links it to the folder that the suite reads.</summary>
    static async Task<object> DownloadAsync(Seat seat, Args how)
    {
        string target = how.Text("target"), link = target + ".new";
        using (Assets assets = await Face.OpenAsync(seat.Client, target + ".releases"))
        {
            Manifest found = await Face.DownloadAsync(assets, how.Text("channel"), Token(seat, how));
            if (symlink(Disk.Bytes((await Face.SwitchAsync(assets)).Folder), Disk.Bytes(link)) != 0)
                throw new IOException("cannot link " + link);
            Disk.Move(link, target);
            return new Dictionary<string, object> { { "release", found.Release }, { "files", found.Files.Keys } };
        }
    }

    static async Task<object> SyncsAsync(Seat seat, string todo, Args how)
    {
        string slot = how.Text("slot");
        Sync sync = seat.Sync;
        if (todo == "sync_open")
            seat.Sync = Face.Heard(await Sync.OpenAsync(seat.Client), seat.Changed);
        else if (todo == "sync_close")
        {
            if (sync != null)
                await Face.CloseAsync(sync, how.Number("within") ?? 0);
            seat.CloseSync();
        }
        else if (sync == null)
            throw new InvalidOperationException("sync_open first");
        else if (Choices.Contains(todo))
            return await ChoiceAsync(seat.Conflicts[slot], todo, how);
        switch (todo)
        {
            case "sync_open":
            case "sync_close":
                return Nothing;
            case "sync_start":
                Face.Start(sync, seat.Changed);
                return Nothing;
            case "sync_run":
                seat.StopRun = new CancellationTokenSource();
                await Face.RunAsync(sync, seat.Changed, seat.StopRun.Token);
                return Nothing;
            case "sync_stop":
                seat.StopRun.Cancel();
                return Nothing;
            case "sync_ready":
                bool ready = await Face.ReadyAsync(sync, how.Number("within") ?? 5);
                return new Dictionary<string, object> { { "ready", ready } };
            case "sync_read":
                return Shown(await sync.ReadAsync(slot));
            case "sync_peek":
                return Shown(await sync.PeekAsync(slot));
            case "sync_write":
                await sync.WriteAsync(slot, how.Data, how.Meta, how.ContentType);
                return Nothing;
            case "sync_delete":
                await sync.DeleteAsync(slot, (how["including_newer"] as bool?) ?? false);
                return Nothing;
            case "sync_status":
                return Shown(await sync.StatusAsync(slot));
            case "sync_slots":
                return new Dictionary<string, object> { { "slots", (await sync.SlotsAsync()).Select(Shown) } };
            case "sync_pump":
                return new Dictionary<string, object>
                {
                    { "news", (await sync.SendAsync()).Select(s => (object)News(s)) },
                };
            case "sync_conflicts":
                IList<SyncConflict> found = await sync.ConflictsAsync();
                seat.Conflicts = found.ToDictionary(conflict => conflict.Slot);
                return new Dictionary<string, object> { { "conflicts", found.Select(Shown) } };
            case "sync_dropped":
                return Shown(await sync.LostAsync(slot));
            case "sync_other_players":
                return new Dictionary<string, object> { { "players", (await sync.OtherPlayersAsync()).Select(Shown) } };
            case "sync_adopt":
                var slots = (IEnumerable<object>)how["slots"];
                return new Dictionary<string, object>
                {
                    {
                        "slots", await sync.AdoptAsync(how.Text("player_id"),
                            slots == null ? null : slots.Cast<string>())
                    },
                };
            case "sync_trouble":
                return new Dictionary<string, object> { { "code", sync.Problem == null ? null : sync.Problem.Code } };
            default:
                throw new Unsupported(todo);
        }
    }

    static async Task<object> ChoiceAsync(SyncConflict conflict, string todo, Args how)
    {
        switch (todo)
        {
            case "sync_keep_mine":
                await conflict.KeepMineAsync();
                return Nothing;
            case "sync_keep_theirs":
                await conflict.KeepTheirsAsync();
                return Nothing;
            case "sync_merged":
                await conflict.MergedAsync(how.Data, how.Meta);
                return Nothing;
        }
        switch (how.Text("side"))
        {
            case "mine":
                return Shown(await conflict.MineAsync());
            case "theirs":
                return Shown(await conflict.TheirsAsync());
            case "base":
                return Shown(await conflict.BaseAsync());
            default:
                throw new Unsupported("side " + how.Text("side"));
        }
    }

    static object News(SyncStatus status)
    {
        return new Dictionary<string, object> { { "slot", status.Slot }, { "state", Face.Text(status) } };
    }

    static object Shown(SyncStatus status)
    {
        return new Dictionary<string, object>
        {
            { "slot", status.Slot }, { "state", Face.Text(status) }, { "size", status.Size }, { "meta", status.Meta },
            { "copies", status.Copies }, { "problem", status.Problem == null ? null : status.Problem.Code },
        };
    }

    static object Shown(SyncConflict conflict)
    {
        return new Dictionary<string, object>
        {
            { "slot", conflict.Slot }, { "reason", Face.Text(conflict) }, { "base", Shown(conflict.BaseInfo) },
            { "current", Shown(conflict.Current) }, { "copy", Shown(conflict.Copy) },
        };
    }

    static object Shown(OtherPlayer player)
    {
        return new Dictionary<string, object>
        {
            { "player_id", player.PlayerId }, { "name", player.Name }, { "modified", player.Modified },
            {
                "saves", player.Saves.Select(save => new Dictionary<string, object>
                {
                    { "slot", save.Slot }, { "size", save.Size }, { "meta", save.Meta }, { "modified", save.Modified },
                })
            },
        };
    }

    static object Shown(SyncSide side)
    {
        return side == null ? null : new Dictionary<string, object>
        {
            { "data", Convert.ToBase64String(side.Data) }, { "content_type", side.ContentType }, { "meta", side.Meta },
        };
    }

    static object Shown(SaveInfo info)
    {
        return info == null ? null : info.ToJson();
    }

    static object Shown(Deletion deletion)
    {
        return Deleted(deletion.Slot, deletion.Version);
    }

    static object Shown(CommitResult result)
    {
        return result.Save == null ? Deleted(result.Slot, result.Version) : Shown(result.Save);
    }

    static object Deleted(string slot, long version)
    {
        return new Dictionary<string, object> { { "slot", slot }, { "version", version }, { "deleted", true } };
    }

    static object Shown(SlotConflict conflict)
    {
        return new Dictionary<string, object>
        {
            { "slot", conflict.Slot }, { "code", conflict.Code }, { "base", Shown(conflict.Base) },
            { "current", Shown(conflict.Current) }, { "yours", Shown(conflict.Yours) },
        };
    }

    static object Shown(LoginProvider provider)
    {
        return new Dictionary<string, object> { { "name", provider.Name }, { "label", provider.Label } };
    }

    static object Shown(SaveVersion version)
    {
        return new Dictionary<string, object>
        {
            { "version", version.Version }, { "kind", Face.Text(version) }, { "parent", version.Parent },
            { "expires", version.Expires }, { "save", Shown(version.Save) }, { "device", version.Device },
        };
    }

    static object Shown(Save save)
    {
        if (save == null)
            return null;
        return new Dictionary<string, object>
        {
            { "data", Convert.ToBase64String(save.Data) }, { "content_type", save.ContentType }, { "meta", save.Meta },
            { "etag", save.Etag },
        };
    }
}
