// Checks of the C# client's internals: Checks.exe NAME ARGUMENTS...; success is no output and exit code 0.

using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Gamed;

/// <summary>An engine's main thread that is never given a turn.</summary>
sealed class Stuck : SynchronizationContext
{
    internal static int Asked;

    public override void Post(SendOrPostCallback callback, object state)
    {
        Interlocked.Increment(ref Asked);
    }
}

/// <summary>A store of credentials whose disk can fail.</summary>
sealed class FailingStore : ICredentialStore
{
    internal string Text;
    internal bool FailsToRead, FailsToWrite, GivesUp;

    public Task<IDisposable> LockAsync(CancellationToken cancel)
    {
        return Task.FromResult<IDisposable>(new MemoryStream());
    }

    public string Read()
    {
        if (FailsToRead)
            throw new IOException("in use");
        if (GivesUp)
            throw new OperationCanceledException("the engine ends");
        return Text;
    }

    public void Write(string text)
    {
        if (FailsToWrite)
            throw new IOException("full");
        Text = text;
    }

    public void Delete()
    {
        Text = null;
    }
}

static partial class Checks
{
    static int Main(string[] arguments)
    {
        string[] rest = arguments.Skip(1).ToArray();
        try
        {
            typeof(Checks).GetMethod(arguments[0]).Invoke(null, rest);
            if (arguments[0] == "Leaves")
                return 0;
            Console.Out.Flush();
            Environment.Exit(0);  // a return would abort the threads that still run, at which Mono may crash
            return 0;
        }
        catch (Exception e)
        {
            Exception cause = e;
            while (cause.InnerException != null && !(cause is GamedError))
                cause = cause.InnerException;
            Console.WriteLine(cause is GamedError ? ((GamedError)cause).Code : cause.ToString());
            return 1;
        }
    }

    static void Expect(bool holds, string what)
    {
        if (!holds)
            throw new InvalidOperationException("not so: " + what);
    }

    static T Thrown<T>(Action action, string what) where T : Exception
    {
        try
        {
            action();
        }
        catch (T e)
        {
            return e;
        }
        catch (AggregateException e)
        {
            if (e.InnerException is T)
                return (T)e.InnerException;
            throw;
        }
        throw new InvalidOperationException("nothing was thrown: " + what);
    }

    /// <summary>A game may catch an error by its name or by the older one, also by that of its base.</summary>
    public static void ErrorNames()
    {
        Type[] errors = typeof(GamedError).Assembly.GetTypes().Where(typeof(GamedError).IsAssignableFrom).ToArray();
        string[] names = errors.Select(type => type.Name).Where(name => name.EndsWith("Exception")).ToArray();
        Expect(names.Length == 29, names.Length + " errors");
        foreach (string name in names.Where(name => name != "GamedException"))
        {
            Type type = errors.Single(each => each.Name == name), older = type.BaseType;
            Expect(older.Name + "Exception" == name, name + " is a " + older.Name);
            Expect(older.BaseType.Name.EndsWith("Exception"), older.Name + " is a " + older.BaseType.Name);
        }
        Thrown<NotFound>(() => { throw Problem("deleted", 410); }, "the older name of a base");
        Thrown<GamedException>(() => { throw new Unreachable("away", "Away."); }, "an older name by the newer base");
    }

    /// <summary>The code of a problem chooses the class.</summary>
    public static void ErrorCodes()
    {
        Expect(Problem("version_conflict", 412).GetType() == typeof(ConflictException), "a conflict");
        Expect(Problem("deleted", 412).GetType() == typeof(ConflictException), "a delete that came first");
        Expect(Problem("deleted", 410).GetType() == typeof(DeletedException), "a deleted save");
        Expect(Problem("busy", 503).GetType() == typeof(BusyException) && Problem("busy", 503).Passing, "busy");
        Expect(Problem("not_known", 404).GetType() == typeof(RefusedException), "a code of this client only");
        Expect(!Problem("teapot", 418).Passing && Problem("teapot", 418).Detail == "In words.", "an unknown code");
        Expect(Errors.OfLogin(Members("login_expired")) is LoginExpiredException, "the end of a sign-in");
        Expect(Errors.OfLogin(Members("other")).GetType() == typeof(LoginFailedException), "another end");
    }

    static Dictionary<string, object> Members(string code)
    {
        return new Dictionary<string, object> { { "code", code }, { "detail", "In words." } };
    }

    static GamedError Problem(string code, int status)
    {
        return Errors.Of(new Answer
        {
            Status = status, Body = Encoding.ASCII.GetBytes(Json.Write(Members(code))),
            Headers = new Dictionary<string, string> { { "Content-Type", "application/problem+json" } },
        });
    }

    public static void JsonIsRefused()
    {
        string[] bad =
        {
            "", " ", "{", "}", "[1,]", "{\"a\":1,}", "{\"a\":1,\"a\":2}", "{\"a\":{\"b\":1,\"b\":1}}", "{a:1}", "'a'", "01",
            "1.", ".5", "+1", "-", "1e", "0x10", "NaN", "Infinity", "-Infinity", "1e999", "tru", "nul", "True", "\"a",
            "\"\t\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\ud800\"", "\"\\udc00\\ud800\"", "\"\\ud800x\"", "[1 2]",
            "1 2", "{} []", "\ufeff{}", "[1]\0", "{\"a\" 1}", "\"\\", "[\"a\",", "// x\n1", "\u00a01", "\u0661",
            new string('[', 33) + new string(']', 33), new string('[', 100000), "{\"a\":" + new string('[', 40),
        };
        foreach (string text in bad)
            Thrown<FormatException>(() => Json.Parse(text), text);
        byte[][] bytes =
        {
            new byte[] { 0xff }, new byte[] { 0x22, 0xc3, 0x22 }, new byte[] { 0x22, 0xed, 0xa0, 0x80, 0x22 },
            new byte[] { 0xef, 0xbb, 0xbf, 0x31 }, new byte[] { 0x22, 0xc0, 0xaf, 0x22 },
        };
        foreach (byte[] text in bytes)
            Thrown<FormatException>(() => Json.Parse(text), BitConverter.ToString(text));
    }

    public static void JsonComesBack()
    {
        string text = "{\"a\":[1,-2,0,9223372036854775807,18446744073709551616,1.5,-0.001,1E+20,true,false,null],"
            + "\"\":\"\\\"\\\\\\u000a\\u00e9\\ud83d\\ude00\\u007f/\",\"deep\":" + new string('[', 31) + new string(']', 31) + "}";
        Expect(Json.Write(Json.Parse(text)) == text, Json.Write(Json.Parse(text)));
        Expect((string)Json.Parse("\"\\u00e9\\/\\b\\f\\n\\r\\t\"") == "\u00e9/\b\f\n\r\t", "escapes");
        Expect((long)Json.Parse(" \t\r\n7 ") == 7, "space");
        Expect(Json.Same(Json.Parse("{\"a\":1,\"b\":[1.0]}"), Json.Parse("{\"b\":[1],\"a\":1}")), "the same");
        Expect(!Json.Same(Json.Parse("{\"a\":1}"), Json.Parse("{\"a\":\"1\"}")), "another");
        Expect(!Json.Same(Json.Parse("[1]"), Json.Parse("[1,1]")) && !Json.Same(null, Json.Parse("{}")), "others");
        object[] not = { double.NaN, double.PositiveInfinity, "\ud800", "x\udc00", new object(), DateTime.Now };
        foreach (object value in not)
            Thrown<ArgumentException>(() => Json.Write(value), value.ToString());
        var round = new List<object>();
        round.Add(round);
        Thrown<ArgumentException>(() => Json.Write(round), "a list in itself");
        Thread.CurrentThread.CurrentCulture = new System.Globalization.CultureInfo("de-DE");
        Expect(Json.Write(1.5) == "1.5" && (double)Json.Parse("1.5") == 1.5, "another culture");
    }

    public static void Names()
    {
        foreach (string slot in new[] { "a", "0", "auto", "a.b-c_d", new string('a', 64), "console", "com", "nul1" })
            Expect(Saves.PathOf(slot) == "/game/saves/" + slot, slot);
        string[] bad =
        {
            null, "", "A", ".a", "-a", "_a", "a.", "a/b", "..", "a b", "a\n", "\u00e9", "con", "con.x", "nul", "com1", "lpt9.sav",
            new string('a', 65), "a%2e", "a\0", "aux", "prn.a.b", "\u0661",
        };
        foreach (string slot in bad)
            Expect(Thrown<Refused>(() => Saves.PathOf(slot), slot).Code == "invalid_slot", slot);
    }

    public static void Paths()
    {
        foreach (string path in new[] { "a", "a/b/c.pck", "Data/L\u00e9vel 1.pck", "a..b", ".a", "console.txt", "com" })
            Expect(AssetPaths.FlawOf(path) == null, path);
        string[] bad =
        {
            "", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/..", "./a", "a\\b", "c:a", "a:b", "a\0b", "a\nb", "a*", "a?",
            "a<", "a|b", "a\"", "a.", "a ", "a./b", "con", "a/NUL.txt", "com1", "COM\u00b9", "conin$", "e\u0301", "a\u2028b",
            "lpt3 .x", new string('a', 256), string.Join("/", Enumerable.Repeat("abcdefgh", 200)), "\u0085",
        };
        foreach (string path in bad)
            Expect(AssetPaths.FlawOf(path) != null, path);
        string[][] pairs = { new[] { "a", "A" }, new[] { "a", "a/b" }, new[] { "A/b", "a" }, new[] { "\u00e9", "\u00c9" } };
        foreach (string[] pair in pairs)
            Thrown<NotGamed>(() => AssetPaths.Refuse(pair), string.Join(" ", pair));
        AssetPaths.Refuse(new[] { "a/b", "a/c", "ab", "b" });
    }

    public static void Origins()
    {
        var good = new Dictionary<string, string>
        {
            { "play.example.org", "https://play.example.org" }, { " https://Play.Example.org./ ", "https://play.example.org" },
            { "https://play.example.org:443", "https://play.example.org" }, { "localhost:8080", "http://localhost:8080" },
            { "http://127.0.0.1:80", "http://127.0.0.1" }, { "[::1]:8080", "http://[::1]:8080" },
            { "https://b\u00fccher.example", "https://xn--bcher-kva.example" }, { "https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443" },
        };
        foreach (KeyValuePair<string, string> pair in good)
            Expect(Origin.Entered(pair.Key).ToString() == pair.Value, pair.Key + " is " + Origin.Entered(pair.Key));
        string[] bad =
        {
            "", "http://play.example.org", "http://192.168.1.2:8080", "ftp://a", "https://", "https://a@b", "https://a:b@c",
            "https://a:0", "https://a:65536", "https://a:99999", "https://a:x", "https://a/b", "https://a?x", "https://a#x",
            "https://a b", "javascript://a", "https://a\\b", "https://[a]", "https://[::1", "http://127.0.0.1.example.org",
            "http://localhost.example.org", "https://a:8\u0661", "file:///etc/passwd", "https:///a", "http://127.1",
        };
        foreach (string address in bad)
            Expect(Thrown<UntrustedAddress>(() => Origin.Entered(address), address).Code == "untrusted_address", address);
        Origin here = Origin.Entered("https://play.example.org");
        Expect(here.Require("https://play.example.org:443/auth/login/x?a=1").Length > 0, "its own");
        Expect(here.PathOf("https://play.example.org/auth/x?y#z") == "/auth/x", "a path");
        string[] foreign =
        {
            "http://play.example.org/", "https://play.example.org:444/", "https://play.example.org.evil.example/",
            "https://evil.example/https://play.example.org/", "https://play.example.org@evil.example/",
            "https://play.example.org\\@evil.example/", "https://play.example.org/ --x", "https://play.example.org/\n",
            "https://play.example.org/\"", "//play.example.org/", "/auth/login/x", "file:///x", "https://play.example.org/'",
        };
        foreach (string url in foreign)
            Thrown<UntrustedAddress>(() => here.Require(url), url);
    }

    public static void Words()
    {
        Expect(SignIn.FinishCode(" bkt-rvw ") == "BKTRVW" && SignIn.FinishCode("b k t r v w") == "BKTRVW", "a code");
        string face = "\ud83d\ude00";
        Expect(GamedClient.Reported(" Anna's\u0007 desk\ud83d ") == "Anna's desk", "a device's name");
        Expect(GamedClient.Reported(new string('a', 63) + face) == new string('a', 63), "no half character");
        Expect(GamedClient.Reported(new string('a', 62) + face + "b").EndsWith(face) && GamedClient.Reported(null) == "", "whole");
        foreach (string typed in new[] { "", "BKT-RV", "BKT-RVWX", "AKT-RVW", "BKT-RV1", "\u0411KTRVW" })
            Expect(SignIn.FinishCode(typed) == null, typed);
        foreach (string tag in new[] { "", "1-a", "W/\"1-a\"", "\"a\"b\"", "\"a\r\nX: y\"", "\"\"" })
            Thrown<Refused>(() => ((Base)tag).ToString(), tag);
        Base whatever = "*", none = (Save)null;
        Expect(whatever.ToString() == "*" && none == null, "bases");
        Thrown<Refused>(() => Saves.Plain(new Dictionary<string, object> { { "a", double.NaN } }), "meta");
    }

    /// <summary>Prints and serializes objects without their secrets.</summary>
    public static void Secrets(string folder)
    {
        Credential credential = Credential.Of(Origin.Entered("localhost:1"), Complete("gat_secret", "grc_secret"), 0);
        Expect(!credential.ToString().Contains("secret") && credential.ToJson().Contains("grc_secret"), "a credential");
        var request = new GamedRequest { Method = "GET", Url = "u", Headers = new Dictionary<string, string> { { "a", "secret" } } };
        Expect(request.ToString() == "GET u", "a request");
        Thrown<NotGamed>(() => Credential.Of(Origin.Entered("localhost:1"), Complete("a b\r\nX: y", "grc_"), 0), "malformed");
        string[] foreign = { "", "{}", "[]", "null", "{\"origin\":1}", credential.ToJson().Replace("localhost", "example") };
        foreach (string text in foreign)
            Expect(Credential.FromJson(text, Origin.Entered("localhost:1")) == null, text);
        string kept = credential.ToJson();
        Expect(Credential.FromJson(kept, Origin.Entered("localhost:1")).ToJson() == kept, "its own");
    }

    /// <summary>A credential that cannot be read for a moment is the one that is known; one that cannot be written
    /// says nothing of a slot.</summary>
    public static void CredentialDisk(string folder)
    {
        Origin origin = Origin.Entered("localhost:1");
        double now = 0;
        var store = new FailingStore { Text = Credential.Of(origin, Complete("gat_1", "grc_1"), 0).ToJson() };
        var puts = new List<string>();
        var client = new GamedClient("localhost:1", new GamedOptions
        {
            Folder = folder, Store = of => store, Now = () => now, Tries = 1,
            Send = (request, cancel) =>
            {
                if (request.Method == "PUT")
                    puts.Add(Encoding.UTF8.GetString(request.Body));
                if (request.Method == "PUT" && puts.Count == 1)
                    throw new IOException("lost answer");
                if (request.Url.EndsWith("/auth/session/refresh"))
                    return Answer(200, Json.Write(Complete("gat_2", "grc_2")));
                if (request.Method != "PUT")
                    return Answer(200, "{\"cursor\":\"c\",\"saves\":[]}");
                return Answer(401, "{\"code\":\"token_expired\",\"detail\":\"x\"}");
            },
        });
        Expect(client.CredentialAsync().Result.PlayerId == "ply_1", "signed in");
        store.FailsToRead = true;
        Expect(client.CredentialAsync().Result.PlayerId == "ply_1", "the known one");
        store.FailsToRead = false;
        using (Sync sync = Sync.OpenAsync(client).Result)
        {
            sync.WriteAsync("auto", Encoding.UTF8.GetBytes("first")).Wait();
            Thrown<Unreachable>(() => sync.SendAsync().Wait(), "the answer is lost");
            store.FailsToWrite = true;
            Thrown<LocalDamaged>(() => sync.SendAsync().Wait(), "the pair cannot be kept");
            Expect(sync.StatusAsync("auto").Result.State == SyncStatus.Waiting, "nothing was refused");
            sync.WriteAsync("auto", Encoding.UTF8.GetBytes("second")).Wait();
            Thrown<LocalDamaged>(() => sync.SendAsync().Wait(), "the same again");
        }
        Expect(puts.All(text => text == "first"), "the same until the server has answered");
    }

    /// <summary>Files that cannot be read stop neither play nor the list of the other players.</summary>
    public static void Unreadable(string folder)
    {
        Origin origin = Origin.Entered("localhost:1");
        var store = new FailingStore();
        var client = new GamedClient("localhost:1", new GamedOptions { Folder = folder, Store = of => store, Tries = 1 });
        string place = Path.Combine(folder, "sync", client.Place);
        Directory.CreateDirectory(Path.Combine(place, "ply_1", "player"));
        Dictionary<string, object> named = Complete("gat_1", "grc_1");
        ((Dictionary<string, object>)named["player"])["name"] = "Anna";
        store.Text = Credential.Of(origin, named, 0).ToJson();
        using (Sync sync = Sync.OpenAsync(client).Result)
            sync.WriteAsync("auto", new byte[] { 1 }).Wait();
        Directory.Delete(Path.Combine(place, "ply_1", "player"));
        ((Dictionary<string, object>)named["player"])["id"] = "ply_2";
        store.Text = Credential.Of(origin, named, 0).ToJson();
        Directory.CreateDirectory(Path.Combine(place, "ply_0", "slots", "auto", "record"));
        using (Sync sync = Sync.OpenAsync(client).Result)
        {
            IList<OtherPlayer> found = sync.OtherPlayersAsync().Result;
            Expect(found.Count == 1 && found[0].PlayerId == "ply_1" && found[0].Name == null, "the readable one");
            Thrown<LocalDamaged>(() => sync.AdoptAsync("ply_0").Wait(), "the other one");
            Expect(sync.AdoptAsync("ply_1").Result.Count == 1, "its copy");
        }
    }

    static Task<GamedResponse> Answer(int status, string text)
    {
        var headers = new Dictionary<string, string>
        {
            { "Gamed-Protocol", "1.0" }, { "Content-Length", text.Length.ToString() },
            { "Content-Type", status == 200 ? "application/json" : "application/problem+json" },
        };
        return Task.FromResult(new GamedResponse(status, headers, new MemoryStream(Encoding.UTF8.GetBytes(text))));
    }

    static Dictionary<string, object> Complete(string access, string refresh)
    {
        return new Dictionary<string, object>
        {
            { "player", new Dictionary<string, object> { { "id", "ply_1" } } }, { "session_id", "ses_1" }, { "provider", "local" },
            { "access_token", access }, { "refresh_credential", refresh }, { "expires_in", 900L },
        };
    }

    /// <summary>Writes files that only this user may read; the test checks the modes.</summary>
    public static void Kept(string folder)
    {
        var file = new CredentialFile(Path.Combine(folder, "a", "b", "place"));
        using (file.LockAsync(CancellationToken.None).Result)
        {
            Expect(file.Read() == null, "nothing yet");
            file.Write("old");
            file.Write("n\u00e9w");
            Expect(file.Read() == "n\u00e9w", "the newest");
            Expect(Disk.TryLock(Path.Combine(folder, "a", "b", "place.lock")) == null, "it is held");
            Task<IDisposable> second = file.LockAsync(new CancellationTokenSource(100).Token);
            Thrown<OperationCanceledException>(() => second.Wait(), "a second holder");
        }
        using (file.LockAsync(CancellationToken.None).Result)
            file.Delete();
        file.Delete();
        Expect(file.Read() == null, "gone");
        Disk.WriteWhole(Path.Combine(folder, "a", "b", "place.json"), new byte[] { 1 });
    }

    /// <summary>Writes files without libc, as on a phone whose engine does not find it.</summary>
    public static void KeptWithoutLibc(string folder)
    {
        Disk.HasLibc = false;
        Kept(folder);
    }

    sealed class Nobody : IPerson
    {
        public Task<string> ChooseProviderAsync(IList<LoginProvider> providers, CancellationToken cancel)
        {
            throw new InvalidOperationException();
        }

        public void BrowserOpened(string url, bool opened, string qrUrl)
        {
            throw new InvalidOperationException("it was shown");
        }

        public void Problem(GamedError error)
        {
            throw new InvalidOperationException(error.Detail);
        }

        public Task<string> FinishCodeAsync(Action showCode, int? attemptsLeft, CancellationToken cancel)
        {
            throw new InvalidOperationException();
        }
    }

    /// <summary>Cancels before a request is sent, and while the server does not respond.</summary>
    public static void Cancelled(string server, string folder)
    {
        var client = new GamedClient(server, new GamedOptions { Folder = folder });
        var how = new SignInOptions { OpenBrowser = null };
        SignIn early = client.BeginSignIn(new Nobody(), how);
        early.CancelAsync().Wait();
        Thrown<LoginCancelled>(() => early.RunAsync().Wait(), "cancelled before it began");
        GamedClient mute = To(FarEnd(stream => { }), folder, 300);
        Stopwatch clock = Stopwatch.StartNew();
        Task<Credential> waiting = mute.SignInAsync(new Nobody(), how);
        Thread.Sleep(300);
        mute.CancelSignInAsync().Wait();
        Thrown<LoginCancelled>(() => waiting.Wait(), "cancelled while the server does not answer");
        Expect(clock.Elapsed.TotalSeconds < 60, "at once");
        Expect(!client.SignedInAsync().Result, "nobody is signed in");
    }

    /// <summary>Asks as a game in a console does; prints the answers.</summary>
    /// <summary>Prints a text and a problem in a language.</summary>
    public static void Texts(string locale, string english)
    {
        Console.OutputEncoding = new System.Text.UTF8Encoding(false);
        Console.WriteLine(PlayerTexts.Text(locale, english, "A"));
        Console.WriteLine(PlayerTexts.Problem(locale, new GamedError("player_blocked", "In English.")));
        Console.WriteLine(PlayerTexts.Problem(locale, new GamedError("teapot", "In English.")));
        Console.WriteLine(PlayerTexts.IsRightToLeft(locale));
    }

    public static void Asks()
    {
        var person = new ConsolePerson();
        LoginProvider[] providers = { new LoginProvider("discord", "Discord"), new LoginProvider("google", "Google") };
        Console.WriteLine(person.ChooseProviderAsync(providers, CancellationToken.None).Result ?? "none");
        Action show = () => Console.WriteLine("shown");
        Console.WriteLine(person.FinishCodeAsync(show, null, CancellationToken.None).Result ?? "none");
        Console.WriteLine(person.FinishCodeAsync(show, 4, CancellationToken.None).Result ?? "none");
        Console.WriteLine(person.ChooseProviderAsync(providers, CancellationToken.None).Result ?? "none");
    }

    /// <summary>A cancelled question does not read the next line.</summary>
    public static void AsksNoMore()
    {
        using (var cancel = new CancellationTokenSource())
        {
            Task<string> code = new ConsolePerson().FinishCodeAsync(null, null, cancel.Token);
            cancel.Cancel();
            Thrown<OperationCanceledException>(() => code.Wait(), "a cancelled question");
        }
        Console.WriteLine("cancelled");
        Console.WriteLine(ConsolePerson.LineAsync().Result);
    }

    /// <summary>The game fails as `how` states; returns the exit code of Main.</summary>
    public static void Ends(string how)
    {
        int code = ConsolePerson.Run(async person =>
        {
            await Task.Yield();
            if (how == "disk")
                throw new IOException("/home/anna: error 28");
            if (how == "gamed")
                throw Errors.SignedOut();
        });
        Console.WriteLine(code);
    }

    /// <summary>Prints whether another process holds it.</summary>
    public static void Locked(string path)
    {
        using (IDisposable held = Disk.TryLock(path))
            Console.WriteLine(held == null ? "held" : "free");
    }

    public static void WhoIsSignedIn(string server, string folder)
    {
        var client = new GamedClient(server, new GamedOptions { Folder = folder });
        Credential credential = client.CredentialAsync().Result;
        Console.WriteLine(credential == null ? "nobody" : credential.PlayerId);
        if (credential != null)
            client.ListSavesAsync().Wait();
    }

    /// <summary>A client for one player sends nothing once the first one has signed out.</summary>
    public static void NothingAfterTheSignOut(string server, string folder)
    {
        var client = new GamedClient(server, new GamedOptions { Folder = folder });
        GamedClient bound = client.Only(client.CredentialAsync().Result.PlayerId, 1);
        bound.WhoamiAsync().Wait();
        client.SignOutAsync().Wait();
        SignInRequired ended = Thrown<SignInRequired>(() => bound.WhoamiAsync().Wait(), "a request after the sign-out");
        Expect(ended.Code == "signed_out", ended.Code);
    }

    /// <summary>The client never waits for the calling thread.</summary>
    public static void NeverNeedsTheCallersThread(string server, string folder)
    {
        SynchronizationContext.SetSynchronizationContext(new Stuck());
        var client = new GamedClient(server, new GamedOptions { Folder = folder });
        Expect(client.PolicyAsync().Wait(30000), "the policy");
        Expect(client.ListSavesAsync().Wait(30000), "the list");
        Expect(client.PutAsync("auto", new byte[] { 1 }, null).Wait(30000), "a save");
        using (Sync sync = Sync.OpenAsync(client).Result)
        {
            Expect(sync.WriteAsync("other", new byte[] { 2 }).Wait(30000), "a write");
            Task[] many = Enumerable.Range(0, 10).Select(n => sync.WriteAsync("other", new[] { (byte)(n + 3) })).ToArray();
            Expect(Task.WaitAll(many, 60000) && sync.ReadAsync("other").Result.Data[0] == 12, "writes keep their order");
            sync.WriteAsync("last", new byte[] { 7 });
        }
        using (Sync sync = Sync.OpenAsync(client).Result)
            Expect(sync.ReadAsync("last").Result.Data[0] == 7, "what was begun before the end is kept");
        Expect(client.SignOutAsync().Wait(30000), "signing out");
        Expect(Stuck.Asked == 0, "the caller's thread was asked for " + Stuck.Asked + " times");
    }

    /// <summary>Writes a slot, sends it, writes it again.</summary>
    public static void SavesOffline(string server, string folder, string slot)
    {
        using (Sync sync = Sync.OpenAsync(new GamedClient(server, new GamedOptions { Folder = folder })).Result)
        {
            var meta = new Dictionary<string, object> { { "title", "K\u00fcche" }, { "n", new[] { 1, 2 } } };
            sync.WriteAsync(slot, new byte[] { 1 }, meta);
            sync.PumpAsync().Wait();  // the older names of SendAsync, Problem and LostAsync
            Expect(sync.Trouble == null && sync.DroppedAsync(slot).Result == null, "older names");
            sync.WriteAsync(slot, new byte[] { 1, 2 }, meta).Wait();
        }
    }

    /// <summary>Prints state and bytes of each slot.</summary>
    public static void Shown(string server, string folder)
    {
        using (Sync sync = Sync.OpenAsync(new GamedClient(server, new GamedOptions { Folder = folder })).Result)
            foreach (SyncStatus status in sync.SlotsAsync().Result)
                Console.WriteLine(status.Slot + " " + status.State + " " + Json.Write(status.Meta) + " "
                    + BitConverter.ToString(sync.ReadAsync(status.Slot).Result.Data));
    }

    static bool offline;

    static Task<GamedResponse> SendAsync(GamedRequest request, CancellationToken cancel)
    {
        if (offline)
            throw new IOException("offline");
        return new GamedOptions().Send(request, cancel);
    }

    static Sync OfAnna(string folder)
    {
        byte[] text = File.ReadAllBytes(Environment.GetEnvironmentVariable("GAMED_PLAYERS"));
        var players = (IDictionary<string, object>)((IDictionary<string, object>)Json.Parse(text))["players"];
        var client = new GamedClient(Environment.GetEnvironmentVariable("GAMED_URL"), new GamedOptions
        {
            Folder = folder, Send = SendAsync,
        });
        client.KeepAsync((IDictionary<string, object>)players["anna"]).Wait();
        return Sync.OpenAsync(client).Result;
    }

    /// <summary>A save of one running device is reported to the other, and is a conflict if both have saved.</summary>
    public static void Running(string folder)
    {
        var news = new System.Collections.Concurrent.BlockingCollection<string>();
        using (var stop = new CancellationTokenSource())
        using (Sync one = OfAnna(Path.Combine(folder, "one")), other = OfAnna(Path.Combine(folder, "other")))
        {
            Expect(!other.ReadyAsync(0).Result, "nothing is known before the first list");
            Thrown<NotKnown>(() => other.ReadAsync("shared").Wait(60000), "a read before the first list");
            Task first = one.RunAsync(null, stop.Token);
            Task second = other.RunAsync(status => news.Add(status.Slot + " " + status.State), stop.Token);
            Expect(other.ReadyAsync(60).Result && other.ReadAsync("shared").Result == null, "the first list has come");
            one.WriteAsync("shared", new byte[] { 1 }).Wait();
            string report;
            while (news.TryTake(out report, 60000) && report != "shared newer")
            {
            }
            Expect(report == "shared newer" && other.ReadAsync("shared").Result.Data[0] == 1, "newer save reported");
            Expect(one.Problem == null && other.Problem == null, "in touch");
            stop.Cancel();
            Expect(Task.WaitAll(new[] { first, second }, 60000), "it ends on request");
        }
        using (Sync signedOut = OfAnna(Path.Combine(folder, "one")))
        using (var stop = new CancellationTokenSource())
        {
            Task running = signedOut.RunAsync(null, stop.Token);
            new GamedClient(Environment.GetEnvironmentVariable("GAMED_URL"), new GamedOptions
            {
                Folder = Path.Combine(folder, "one"),
            }).SignOutAsync("all").Wait();
            signedOut.WriteAsync("shared", new byte[] { 2 }).Wait();
            Thrown<SignInRequired>(() => running.Wait(60000), "nobody is signed in any more");
        }
    }

    static string CurrentOf(GamedClient client, string slot)
    {
        Save save = client.GetAsync(slot).Result;
        return save == null ? null : Encoding.UTF8.GetString(save.Data);
    }

    /// <summary>A game that ends right after a save sends it before its end, if that is possible.</summary>
    public static void Started(string folder)
    {
        var desk = new GamedClient(Environment.GetEnvironmentVariable("GAMED_URL"), new GamedOptions
        {
            Folder = Path.Combine(folder, "desk"),
        });
        using (Sync sync = OfAnna(desk.Folder))
        {
            sync.Start();
            sync.Start();
            Expect(sync.ReadyAsync(60).Result, "the first list has come");
            sync.WriteAsync("started", new byte[] { (byte)'1' });
            sync.CloseAsync(60).Wait();
        }
        Expect(CurrentOf(desk, "started") == "1", "sent before the end");
        Stopwatch clock = Stopwatch.StartNew();
        offline = true;
        using (Sync sync = OfAnna(desk.Folder))
        {
            sync.Start();
            sync.WriteAsync("started", new byte[] { (byte)'2' });
            sync.CloseAsync(60).Wait();
        }
        Expect(clock.Elapsed.TotalSeconds < 30 && CurrentOf(desk, "started") == "1", "the end does not wait in vain");
        offline = false;
        Sync last;
        using (last = OfAnna(desk.Folder))
        {
            last.Start();
            last.CloseAsync(60).Wait();
        }
        Expect(CurrentOf(desk, "started") == "2", "it goes up at the next start");
        Expect(Thrown<InUse>(() => last.Start(), "a closed one").Code == "closed", "closed");
    }

    /// <summary>The disposed Sync sends nothing more, its waits end at once, and no thread of the game waits.</summary>
    public static void Closes(string folder)
    {
        GamedClient client = To(FarEnd(stream => { }), folder, 300);
        KeepCredential(client);
        Sync sync = Sync.OpenAsync(client).Result;
        Task running = sync.RunAsync();
        Task pumping = sync.SendAsync();
        sync.Start();
        sync.WriteAsync("auto", new byte[] { 1 });
        Stopwatch clock = Stopwatch.StartNew();
        sync.Dispose();
        Expect(clock.Elapsed.TotalSeconds < 1, "the end does not wait for a server: " + clock.Elapsed.TotalSeconds);
        using (Sync again = Sync.OpenAsync(client).Result)
            Expect(again.ReadAsync("auto").Result.Data[0] == 1, "the next one opens after the end of the first");
        foreach (Task task in new[] { running, pumping })
            Expect(Thrown<InUseException>(() => task.Wait(5000), "a wait of a closed one").Code == "closed", "closed");
    }

    /// <summary>The saves are those of the player who is signed in when the earlier Sync has ended.</summary>
    public static void OpensLate(string folder)
    {
        var options = new GamedOptions { Folder = folder, Tries = 1 };
        options.Send = async (request, cancel) =>
        {
            await Task.Delay(Timeout.Infinite, cancel);
            return null;
        };
        var client = new GamedClient("http://127.0.0.1:9", options);
        KeepCredential(client);
        Sync sync = Sync.OpenAsync(client).Result;
        sync.Start();
        sync.WriteAsync("auto", new byte[] { 1 });
        sync.Dispose();  // it tries to send for 5 seconds
        Task<Sync> opening = Sync.OpenAsync(client);
        Expect(!opening.Wait(500), "it waits");
        KeepCredential(client, "ply_2");
        using (Sync next = opening.Result)
            Expect(next.PlayerId == "ply_2", next.PlayerId);
    }

    /// <summary>An exception of a function of the game, called when the Sync is closed, keeps the folder from no
    /// one.</summary>
    public static void ClosesAnyway(string folder)
    {
        int served = 0;
        var options = new GamedOptions { Folder = folder, Tries = 1 };
        options.Send = async (request, cancel) =>
        {
            cancel.Register(() => { throw new InvalidOperationException("not on this thread"); });
            Interlocked.Increment(ref served);
            await Task.Delay(Timeout.Infinite, cancel);
            return null;
        };
        var client = new GamedClient("http://127.0.0.1:9", options);
        KeepCredential(client);
        Sync sync = Sync.OpenAsync(client).Result;
        Task sending = sync.SendAsync();
        while (served == 0)
            Thread.Sleep(10);
        sync.Dispose();
        Sync.OpenAsync(client).Result.Dispose();
        Thrown<InUseException>(() => sending.Wait(5000), "a wait of a closed one");
    }

    /// <summary>A function of the game that gives up by itself is not the end of the Sync.</summary>
    public static void GivesUp(string folder)
    {
        var store = new FailingStore();
        var client = new GamedClient("http://127.0.0.1:9", new GamedOptions { Folder = folder, Tries = 1, Store = origin => store });
        using (Sync sync = Sync.OpenAsync(client).Result)
        {
            store.GivesUp = true;
            Thrown<OperationCanceledException>(() => sync.SendAsync().Wait(5000), "not closed");
            sync.Start();
            for (Stopwatch clock = Stopwatch.StartNew(); sync.Problem == null && clock.Elapsed.TotalSeconds < 20;)
                Thread.Sleep(20);
            Expect(sync.Problem != null && sync.Problem.Code == "callback_failed", "the loop states its end");
        }
    }

    /// <summary>Begins a write and ends the program.</summary>
    public static void Leaves(string server, string folder)
    {
        Sync sync = Sync.OpenAsync(new GamedClient(server, new GamedOptions { Folder = folder })).Result;
        sync.WriteAsync("auto", new byte[32 << 20]);
        sync.Dispose();
    }

    const string LoginStarted = "{\"device_secret\":\"s\",\"expires_in\":600,\"login_url\":\"http://127.0.0.1:9/l\","
        + "\"login_id\":\"l\",\"poll\":{\"url\":\"http://127.0.0.1:9/poll\",\"max_wait\":25}}";

    /// <summary>A sign-in that was cancelled ends, also if the server does not hear of it.</summary>
    public static void CancelsAlone(string folder)
    {
        int served = 0;
        var options = new GamedOptions { Folder = folder, TimeoutSeconds = 300 };
        options.Send = async (request, cancel) =>
        {
            served++;
            if (request.Url.EndsWith("/poll"))
                await Task.Delay(Timeout.Infinite, cancel);
            if (request.Url.EndsWith("/cancel"))
                throw new IOException("away");
            bool start = request.Url.EndsWith("/auth/login");
            byte[] body = Encoding.ASCII.GetBytes(start ? LoginStarted : "{\"providers\":[]}");
            return new GamedResponse(200, new Dictionary<string, string>
            {
                { "Gamed-Protocol", "1.0" }, { "Content-Length", body.Length.ToString() },
            }, new MemoryStream(body));
        };
        var client = new GamedClient("http://127.0.0.1:9", options);
        Task<Credential> waiting = client.SignInAsync(new ConsolePerson(), new SignInOptions { OpenBrowser = url => true });
        while (served < 3 && !waiting.IsCompleted)
            Thread.Sleep(10);
        client.CancelSignInAsync().Wait();
        Thrown<LoginCancelledException>(() => waiting.Wait(20000), "cancelled without a network");
    }

    /// <summary>A cancel that the server refuses, because the sign-in has succeeded, does not lose the
    /// credentials.</summary>
    public static void CancelsLate(string folder)
    {
        var refused = new TaskCompletionSource<bool>();
        int polls = 0;
        var options = new GamedOptions { Folder = folder, TimeoutSeconds = 300 };
        options.Send = async (request, cancel) =>
        {
            object answer = new Dictionary<string, object> { { "providers", new object[0] } };
            bool late = request.Url.EndsWith("/cancel");
            if (late)
                answer = Members("login_collected");
            else if (request.Url.EndsWith("/poll"))
            {
                Interlocked.Increment(ref polls);
                await refused.Task;
                await Task.Delay(500, cancel);
                answer = Complete("gat_1", "grc_1");
                ((IDictionary<string, object>)answer)["status"] = "complete";
            }
            else if (request.Url.EndsWith("/auth/login"))
                answer = Json.Parse(Encoding.ASCII.GetBytes(LoginStarted));
            if (late)
                refused.TrySetResult(true);
            byte[] body = Encoding.ASCII.GetBytes(Json.Write(answer));
            return new GamedResponse(late ? 410 : 200, new Dictionary<string, string>
            {
                { "Gamed-Protocol", "1.0" }, { "Content-Length", body.Length.ToString() },
                { "Content-Type", late ? "application/problem+json" : "application/json" },
            }, new MemoryStream(body));
        };
        var client = new GamedClient("http://127.0.0.1:9", options);
        Task<Credential> waiting = client.SignInAsync(new ConsolePerson(), new SignInOptions { OpenBrowser = url => true });
        while (polls == 0 && !waiting.IsCompleted)
            Thread.Sleep(10);
        client.CancelSignInAsync().Wait();
        Expect(waiting.Wait(20000) && waiting.Result.PlayerId == "ply_1", "signed in");
    }

    /// <summary>The server's certificate is not one that this machine trusts.</summary>
    public static void Untrusted(string server, string folder)
    {
        GamedClient client = new GamedClient(server, new GamedOptions { Folder = folder });
        KeepCredential(client);
        foreach (Task task in new Task[] { client.PolicyAsync(), client.PutAsync("auto", new byte[1 << 20], null) })
            Expect(Thrown<UntrustedAddressException>(() => task.Wait(60000), "untrusted").Code
                == "untrusted_certificate", "certificate");
    }

    /// <summary>Requests leave the settings of the whole process alone.</summary>
    public static void LeavesSettings(string folder)
    {
        ServicePointManager.SecurityProtocol = SecurityProtocolType.Tls;
        Thrown<GamedError>(() => new GamedClient("http://127.0.0.1:9", new GamedOptions
        {
            Folder = folder, Tries = 1,
        }).PolicyAsync().Wait(), "no server");
        Expect(ServicePointManager.SecurityProtocol == SecurityProtocolType.Tls, "TLS");
    }

    // -- a server that misbehaves below HTTP --

    static GamedClient To(TcpListener listener, string folder, double seconds)
    {
        int port = ((IPEndPoint)listener.LocalEndpoint).Port;
        return new GamedClient("http://127.0.0.1:" + port, new GamedOptions
        {
            Folder = folder, TimeoutSeconds = seconds, Tries = 1,
        });
    }

    static TcpListener FarEnd(Action<NetworkStream> each)
    {
        return FarEndOf(one => each(one.GetStream()));
    }

    static TcpListener FarEndOf(Action<TcpClient> each)
    {
        var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        new Thread(() =>
        {
            for (; ; )
            {
                each(listener.AcceptTcpClient());
            }
        }) { IsBackground = true }.Start();
        return listener;
    }

    static void Say(NetworkStream stream, string text)
    {
        byte[] data = Encoding.ASCII.GetBytes(text);
        stream.Write(data, 0, data.Length);
    }

    public static void Silence(string folder)
    {
        TcpListener silent = FarEnd(stream => { });
        for (int i = 1; i <= 100; i++)  // some end while they connect
            Expect(((IAsyncResult)To(silent, folder, i * 0.0005).PolicyAsync()).AsyncWaitHandle.WaitOne(60000), "ended");
        GamedClient mute = To(silent, folder, 0.5);
        Expect(Thrown<Unreachable>(() => mute.PolicyAsync().Wait(), "no answer").Code == "unreachable", "mute");
        GamedClient slow = To(FarEnd(stream => Say(stream, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"a\"")), folder, 0.5);
        Thrown<Unreachable>(() => slow.PolicyAsync().Wait(), "half an answer");
        using (var cancel = new CancellationTokenSource(200))
        {
            Stopwatch clock = Stopwatch.StartNew();
            GamedClient patient = To(FarEnd(stream => { }), folder, 300);
            Thrown<OperationCanceledException>(() => patient.PolicyAsync(cancel.Token).Wait(), "cancelled");
            Expect(clock.Elapsed.TotalSeconds < 60, "cancelled soon");
        }
    }

    /// <summary>An interrupted answer may fail to close: that is no error on the timer's thread that ends it.</summary>
    public static void ClosesBroken()
    {
        var fields = new Dictionary<string, string>();
        foreach (Exception each in new Exception[] { new IOException(), new NotSupportedException(), new InvalidOperationException() })
        {
            var body = new MemoryStream();
            new GamedResponse(200, fields, body, () => { throw each; }).Dispose();
            Expect(!body.CanRead, "the body is closed, too");
        }
    }

    static void KeepCredential(GamedClient client, string player = "ply_1")
    {
        Dictionary<string, object> complete = Complete("gat_x", "grc_x");
        complete["player"] = new Dictionary<string, object> { { "id", player } };
        string kept = Credential.Of(client.Origin, complete, 1e12).ToJson();
        Disk.PrivateFolder(client.Folder);
        Disk.WriteWhole(Path.Combine(client.Folder, client.Place + ".json"), Encoding.ASCII.GetBytes(kept));
    }

    /// <summary>Long waits do not delay other requests.</summary>
    public static void AtOnce(string folder)
    {
        int arrived = 0;
        GamedClient client = To(FarEnd(stream => Interlocked.Increment(ref arrived)), folder, 300);
        Task[] waiting = Enumerable.Range(0, 12).Select(n => (Task)client.PolicyAsync()).ToArray();
        for (Stopwatch clock = Stopwatch.StartNew(); arrived < waiting.Length && clock.Elapsed.TotalSeconds < 20;)
            Thread.Sleep(20);
        Expect(arrived == waiting.Length, arrived + " requests at once");
    }

    /// <summary>The server rejects an upload by its head and does not read the body; the client reads the
    /// response.</summary>
    public static void EarlyAnswer(string folder)
    {
        string problem = "{\"code\":\"save_too_large\",\"detail\":\"Too large.\"}";
        TcpListener far = FarEndOf(one =>
        {
            NetworkStream stream = one.GetStream();
            stream.Read(new byte[4096], 0, 4096);
            Say(stream, "HTTP/1.1 413 X\r\nContent-Type: application/problem+json\r\nConnection: close\r\nContent-Length: "
                + problem.Length + "\r\n\r\n" + problem);
            one.Client.Shutdown(SocketShutdown.Send);
            Thread.Sleep(1000);
            one.Close();
        });
        GamedClient client = To(far, folder, 30);
        KeepCredential(client);
        for (int i = 0; i < 3; i++)
            Expect(Thrown<GamedError>(() => client.PutAsync("auto", new byte[24 << 20], null).Wait(), "too large").Code
                == "save_too_large", "the response counts");
    }

    /// <summary>Prints the release, and the number of received bytes.</summary>
    public static void Fetch(string server, string folder, string state)
    {
        var options = new GamedOptions { Folder = state };
        options.Sleep = (time, cancel) => Task.Delay(5, cancel);
        long fetched = 0, done = 0, size = 0;
        using (var assets = new Assets(new GamedClient(server, options), folder))
        {
            Manifest found = assets.DownloadAsync("stable", progress =>
            {
                fetched = progress.Fetched;
                done = progress.Done;
                size = progress.Size;
            }).Result;
            LocalRelease release = assets.Switch();
            Expect(release.Id == found.Release && done == size, "whole: " + done + " of " + size);
            foreach (KeyValuePair<string, AssetFile> file in release.Manifest.Files)
                Expect(new FileInfo(assets.PathOf(file.Key)).Length == file.Value.Size, file.Key);
            Console.WriteLine(release.Folder);
            Console.WriteLine(fetched);
        }
    }
}
