// Checks of the face for today's .NET, with those of Checks.cs.

using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Net.Sockets;
using System.Text;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;
using Gamed;

/// <summary>Progress without a thread of its own.</summary>
sealed class Reports : IProgress<AssetProgress>
{
    internal readonly List<AssetProgress> All = new List<AssetProgress>();

    public void Report(AssetProgress progress)
    {
        All.Add(progress);
    }
}

static partial class Checks
{
    static SyncStatus StatusOf(string state)
    {
        return new SyncStatus { State = state, Modified = "2026-11-21T18:29:03.120Z" };
    }

    /// <summary>Each text of the protocol has a value, and a text of a newer server has the first one.</summary>
    public static void Values()
    {
        string[] states =
        {
            SyncStatus.Unknown, SyncStatus.InStep, SyncStatus.Waiting, SyncStatus.Newer, SyncStatus.Conflict,
            SyncStatus.Refused,
        };
        SlotState[] values = states.Select(state => StatusOf(state).SlotState).ToArray();
        Expect(values.SequenceEqual((SlotState[])Enum.GetValues(typeof(SlotState))), string.Join(" ", values));
        foreach (string other in new[] { "5", "", null, "in step", "Later" })
            Expect(StatusOf(other).SlotState == SlotState.Unknown, other);
        var time = new DateTimeOffset(2026, 11, 21, 18, 29, 3, 120, TimeSpan.Zero);
        Expect(StatusOf("newer").ModifiedTime == time, StatusOf("newer").ModifiedTime.ToString());
        Expect(new OtherSave().ModifiedTime == null && new OtherSave { Modified = "now" }.ModifiedTime == null, "none");
        var options = new GamedOptions { Timeout = TimeSpan.FromSeconds(1.5), ReturnTimeout = TimeSpan.FromMinutes(1) };
        Expect(options.TimeoutSeconds == 1.5 && options.ReturnSeconds == 60, "seconds");
        options = new GamedOptions { Timeout = Timeout.InfiniteTimeSpan, ReturnTimeout = Timeout.InfiniteTimeSpan };
        Expect(options.TimeoutSeconds > 1e6 && options.ReturnSeconds > 1e6, "no limit");
        using (var both = new CancellationTokenSource())
            both.CancelAfter(options.Timeout + TimeSpan.FromMinutes(1));
        foreach (string text in new[] { "10:30", "March 2026", "1/2/2026", "1.2", "2026-11-21", "", null })
            Expect(new OtherSave { Modified = text }.ModifiedTime == null, text);
        var client = new GamedClient("http://127.0.0.1:9");
        Thrown<ArgumentOutOfRangeException>(() => client.SignOutAsync((SessionScope)7).Wait(), "no scope");
        var busy = new GamedException("busy", "Busy.") { RetryAfter = 2.5 };
        Expect(busy.RetryDelay == TimeSpan.FromSeconds(2.5), "delay");
    }

    static T Next<T>(BlockingCollection<T> found, Func<T, bool> wanted, string what)
    {
        T next;
        while (found.TryTake(out next, 60000))
            if (wanted(next))
                return next;
        throw new InvalidOperationException("not raised: " + what);
    }

    /// <summary>Ends the process although a thread is ending it already: Environment.Exit would wait for it.</summary>
    [DllImport("libc", EntryPoint = "_exit")]
    static extern void EndNow(int code);

    /// <summary>A handler may throw, or wait for the Sync: the loop continues, and the exception is seen.</summary>
    public static void Handlers(string folder)
    {
        var failures = new BlockingCollection<string>();
        AppDomain.CurrentDomain.UnhandledException += (sender, e) =>
        {
            failures.Add(((Exception)e.ExceptionObject).Message);
            Thread.Sleep(Timeout.Infinite);  // the end of the process waits for this
        };
        int served = 0;
        var options = new GamedOptions { Folder = folder, Tries = 1 };
        options.Send = (request, cancel) =>
        {
            Interlocked.Increment(ref served);
            throw new IOException("offline");
        };
        var client = new GamedClient("http://127.0.0.1:9", options);
        KeepCredential(client);
        var codes = new BlockingCollection<string>();
        Sync sync = Sync.OpenAsync(client).Result;
        sync.ProblemChanged += (sender, e) =>
        {
            codes.Add(e.Problem.Code);
            codes.Add(Thrown<UnreachableException>(() => sync.SendAsync().Wait(20000), "a wait inside").Code);
            throw new InvalidOperationException("a label");
        };
        sync.Start(status => { throw new InvalidOperationException("a list"); });
        Next(codes, code => code == "unreachable", "the event");
        Next(codes, code => code == "unreachable", "a wait in its handler");
        Next(failures, text => text == "a label", "the exception of the handler");
        sync.WriteAsync("auto", new byte[] { 1 }).Wait();
        Next(failures, text => text == "a list", "the exception of the function of Start");
        int before = served;
        for (Stopwatch clock = Stopwatch.StartNew(); served == before && clock.Elapsed.TotalSeconds < 60;)
            Thread.Sleep(20);
        Expect(served > before, "the loop continues");
        sync.CloseAsync().Wait();
        EndNow(0);
    }

    /// <summary>The end of a Sync is no problem to show.</summary>
    public static void ClosesQuietly(string folder)
    {
        int arrived = 0, raised = 0;
        GamedClient client = To(FarEnd(stream => Interlocked.Increment(ref arrived)), folder, 300);
        KeepCredential(client);
        Sync sync = Sync.OpenAsync(client).Result;
        sync.ProblemChanged += (sender, e) => Interlocked.Increment(ref raised);
        Task sending = sync.SendAsync();
        while (arrived == 0)
            Thread.Sleep(10);
        sync.DisposeAsync().Wait();
        Expect(Thrown<InUseException>(() => sending.Wait(5000), "a wait of a closed one").Code == "closed", "closed");
        Expect(raised == 0, "nothing to show");
    }

    /// <summary>The game's own HttpClient follows a redirect to another server: the client does not take its
    /// answer.</summary>
    public static void Redirected(string folder)
    {
        TcpListener other = FarEnd(stream =>
        {
            stream.Read(new byte[4096], 0, 4096);
            Say(stream, "HTTP/1.1 200 OK\r\nGamed-Protocol: 1.0\r\nContent-Length: 2\r\n\r\n{}");
            stream.Close();
        });
        TcpListener far = FarEnd(stream =>
        {
            stream.Read(new byte[4096], 0, 4096);
            Say(stream, "HTTP/1.1 307 X\r\nContent-Length: 0\r\nLocation: http://127.0.0.1:"
                + ((IPEndPoint)other.LocalEndpoint).Port + "/\r\nConnection: close\r\n\r\n");
            stream.Close();
        });
        var options = new GamedOptions { Folder = folder, Tries = 1, Send = new ClientHttp(new HttpClient()).SendAsync };
        var client = new GamedClient("http://127.0.0.1:" + ((IPEndPoint)far.LocalEndpoint).Port, options);
        Expect(Thrown<UntrustedAddressException>(() => client.PolicyAsync().Wait(20000), "another server").Code
            == "untrusted_address", "refused");
    }

    /// <summary>A delete has a connection of its own: on a kept one that the server has closed, HttpClient repeats
    /// it.</summary>
    public static void DeletesAlone(string folder)
    {
        string head = null;
        GamedClient client = To(FarEnd(stream =>
        {
            var data = new byte[4096];
            head = Encoding.ASCII.GetString(data, 0, stream.Read(data, 0, data.Length));
            stream.Close();
        }), folder, 30);
        KeepCredential(client);
        Thrown<UnreachableException>(() => client.DeleteAsync("auto", Base.Whatever).Wait(), "no answer");
        Expect(head.StartsWith("DELETE ") && head.ToLowerInvariant().Contains("connection: close"), head);
    }

    /// <summary>Typed answers, events, and progress, with a real server.</summary>
    public static void Plays(string folder)
    {
        var slots = new BlockingCollection<SyncStatus>();
        var troubles = new BlockingCollection<GamedError>();
        Sync desk = OfAnna(Path.Combine(folder, "desk")), sofa = OfAnna(Path.Combine(folder, "sofa"));
        sofa.Changed += (sender, e) => slots.Add(e.Status);
        sofa.ProblemChanged += (sender, e) => troubles.Add(e.Problem ?? new GamedError("none", ""));
        desk.WriteAsync("direct", new byte[] { 1 }).Wait();
        desk.SendAsync().Wait();
        Expect(sofa.SendAsync().Result.Any(status => status.Slot == "direct"), "found without a loop");
        Expect(slots.Any(status => status.Slot == "direct" && status.SlotState == SlotState.Newer), "and raised");
        desk.Start();
        sofa.Start();
        Expect(sofa.ReadyAsync(TimeSpan.FromMinutes(1)).Result, "ready");
        desk.WriteAsync("today", new byte[] { 1 }).Wait();
        Next(slots, status => status.Slot == "today" && status.SlotState == SlotState.Newer, "newer");
        offline = true;
        sofa.WriteAsync("today", new byte[] { 2 }).Wait();
        Next(troubles, error => error is UnreachableException, "no network");
        offline = false;
        Next(troubles, error => error.Code == "none", "the network again");
        Next(slots, status => status.Slot == "today" && status.SlotState == SlotState.Conflict, "a conflict");
        SyncConflict conflict = sofa.ConflictsAsync().Result.Single();
        Expect(conflict.ConflictReason == ConflictReason.Changed, conflict.Reason);
        conflict.KeepMineAsync().Wait();
        Next(slots, status => status.Slot == "today" && status.SlotState == SlotState.InStep, "in step");
        desk.WriteAsync("last", new byte[] { 1 });
        Task.WaitAll(desk.CloseAsync(Timeout.InfiniteTimeSpan), sofa.DisposeAsync());
        Expect(Thrown<InUseException>(() => sofa.Start(), "a closed one").Code == "closed", "closed");

        var client = new GamedClient(Environment.GetEnvironmentVariable("GAMED_URL"), new GamedOptions
        {
            Folder = Path.Combine(folder, "desk"),
        });
        PlayerSummary player = client.GetPlayerAsync().Result;
        Expect(player.PlayerId == client.CredentialAsync().Result.PlayerId && player.Name == "Anna", player.Name);
        Expect(player.Usage.Slots > 0 && player.Usage.Bytes <= player.Limits.Bytes, "usage");
        Expect(player.SaveBytes > 0 && player.WritesPerMinute > 0, "limits");
        Expect((DateTimeOffset.UtcNow - player.ServerTime.Value).Duration() < TimeSpan.FromMinutes(1), "the clock");
        Expect(client.GetAsync("last").Result != null, "sent before the end");
        VersionKind[] kinds = client.VersionsAsync("today").Result.Select(version => version.VersionKind).ToArray();
        Expect(kinds.Contains(VersionKind.Write) && !kinds.Contains(VersionKind.Other), string.Join(" ", kinds));
        Expect(client.ListSessionsAsync().Result.All(device => device.ExpiresTime > device.CreatedTime), "devices");

        var reports = new Reports();
        using (Assets assets = Assets.OpenAsync(client).Result)
        {
            assets.DownloadAsync("stable", null, true).Wait();
            Manifest found = assets.DownloadWithProgressAsync("stable", reports).Result;
            Expect(assets.SwitchAsync().Result.Id == found.Release, "a release");
            AssetProgress last = reports.All.Last();
            Expect(last.DownloadStage == DownloadStage.Finishing && last.Done == found.Size, "progress");
        }
        Expect(client.SignOutAsync(SessionScope.This).Result && !client.SignedInAsync().Result, "signed out");
    }
}
