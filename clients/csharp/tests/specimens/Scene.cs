// A game of Unity on the stand-in of the engine: Scene.exe NAME SERVER FOLDER BROWSER...; success is no output and exit
// code 0.

using System;
using System.Collections;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Text;
using System.Threading.Tasks;
using Gamed;
using UnityEngine;

static class Scene
{
    static string player, server, folder;
    static string[] browser;
    static GameObject scene;
    static GamedBehaviour gamed;
    static readonly List<string> Events = new List<string>();

    static int Main(string[] arguments)
    {
        player = arguments[0].ToLowerInvariant() + Guid.NewGuid().ToString("N").Substring(0, 8);
        server = arguments[1];
        folder = arguments[2];
        browser = arguments.Skip(3).ToArray();
        Stage.Begin();
        try
        {
            typeof(Scene).GetMethod(arguments[0]).Invoke(null, null);
            return 0;
        }
        catch (Exception e)
        {
            Console.WriteLine((e.InnerException ?? e).ToString());
            return 1;
        }
    }

    static void Expect(bool holds, string what)
    {
        if (!holds)
            throw new InvalidOperationException("not so: " + what + "; events: " + string.Join(", ", Events));
    }

    /// <summary>A start of the game on a device.</summary>
    static void Start(string device, string returnUri = "")
    {
        // on a computer the client uses the platform's folder
        Environment.SetEnvironmentVariable("XDG_STATE_HOME", Path.Combine(folder, device));
        Stage.Folder = Path.Combine(folder, device);
        Stage.Opened.Clear();
        Events.Clear();
        scene = new GameObject();
        gamed = scene.AddComponent<GamedBehaviour>();
        gamed.Server = server;
        gamed.ReturnUri = returnUri;
        gamed.SignedIn += () => Events.Add("signed in");
        gamed.ProblemFound += error => Events.Add(error.Code);
        gamed.Changed += status => Events.Add(status.Slot + " " + status.State);
        gamed.ConflictFound += conflict => Events.Add("conflict of " + conflict.Slot);
    }

    /// <summary>Runs the player's browser: it signs in as this scene's player and returns by itself if it can. Returns
    /// the code, or the address.</summary>
    static string Browse()
    {
        Stage.Until(() => Stage.Opened.Count > 0, "the browser opens", scene);
        var how = new ProcessStartInfo(browser[0], string.Join(" ", browser.Skip(1)) + " " + Stage.Opened[0] + " " + player)
        {
            UseShellExecute = false, RedirectStandardOutput = true,
        };
        using (Process process = Process.Start(how))
            return process.StandardOutput.ReadToEnd().Trim();
    }

    static T Wait<T>(Task<T> task)
    {
        Stage.Until(() => task.IsCompleted, "a task ends", scene);
        return task.Result;
    }

    static byte[] Bytes(string text)
    {
        return Encoding.UTF8.GetBytes(text);
    }

    // -- a whole game --

    static IEnumerator Plays()
    {
        GamedWait<bool> signIn = gamed.SignIn();
        yield return signIn;
        Expect(signIn.Value && signIn.Error == null, "signed in");
        GamedWait<byte[]> load = gamed.Load("auto");
        yield return load;
        int level = load.Value == null ? 1 : int.Parse(Encoding.UTF8.GetString(load.Value)) + 1;
        yield return gamed.Save("auto", Bytes(level.ToString()));
        Events.Add("level " + level);
    }

    /// <summary>A device that uses `await` and one that uses coroutines end with the same saves.</summary>
    public static void Signs()
    {
        Start("desk");
        Task<bool> signIn = gamed.SignInAsync();
        Expect(Browse().StartsWith("http://127.0.0.1"), "the browser comes back");
        Expect(Wait(signIn) && Events.Contains("signed in"), "signed in");
        Wait(gamed.CancelSignInAsync().ContinueWith(done => true));  // it is too late: the session stays
        Expect(!gamed.GetComponent<GamedDialog>().IsShown && Stage.Shown.Count == 0, "the dialog is gone");
        Expect(Wait(gamed.LoadAsync("auto")) == null, "never saved");
        Wait(gamed.SaveAsync("auto", Bytes("1")).ContinueWith(done => true));
        Stage.Until(() => gamed.Sync.StatusAsync("auto").Result.State == SyncStatus.InStep, "it arrives", scene);
        Stage.Destroy(scene);

        Start("sofa");
        IEnumerator plays = Plays();
        Expect(plays.MoveNext(), "the coroutine begins");
        Browse();
        Stage.Until(() => !((CustomYieldInstruction)plays.Current).keepWaiting, "signed in", scene);
        Stage.Run(plays, scene);
        Expect(Events.Contains("level 2") && !Events.Contains("conflict of auto"), "the first device's save is here");
        Stage.Until(() => gamed.Sync.StatusAsync("auto").Result.State == SyncStatus.InStep, "it arrives", scene);
        Stage.Destroy(scene);

        Start("desk");
        Expect(Wait(gamed.SignInAsync()) && Stage.Opened.Count == 0, "still signed in");
        Expect(Encoding.UTF8.GetString(Wait(gamed.LoadAsync("auto"))) == "2", "the other device's save is here");
        Wait(gamed.SignOutAsync().ContinueWith(done => true));
        Expect(gamed.Sync == null && gamed.Load("auto").Error is SignInRequired, "signed out");
        Stage.Destroy(scene);
    }

    /// <summary>Two devices continue from the same save: the second player is asked, and keeps their own.</summary>
    public static void Disagrees()
    {
        Start("desk");
        Task<bool> signIn = gamed.SignInAsync();
        Browse();
        Expect(Wait(signIn), "signed in");
        GamedBehaviour desk = gamed;
        Expect(Wait(desk.LoadAsync("auto")) == null, "never saved");
        Start("sofa");
        signIn = gamed.SignInAsync();
        Browse();
        Expect(Wait(signIn) && Wait(gamed.LoadAsync("auto")) == null, "nothing here either");
        SyncConflict found = null;
        gamed.ConflictFound += conflict => found = conflict;
        Wait(desk.SaveAsync("auto", Bytes("desk")).ContinueWith(done => true));
        Stage.Until(() => desk.Sync.StatusAsync("auto").Result.State == SyncStatus.InStep, "it arrives", scene);
        Wait(gamed.SaveAsync("auto", Bytes("sofa")).ContinueWith(done => true));
        Stage.Until(() => found != null, "the conflict", scene);
        Expect(Encoding.UTF8.GetString(Wait(found.TheirsAsync()).Data) == "desk", "theirs");
        Wait(found.KeepMineAsync().ContinueWith(done => true));
        Stage.Until(() => gamed.Sync.StatusAsync("auto").Result.State == SyncStatus.InStep, "it arrives", scene);
        Stage.Destroy(scene);
        Stage.Destroy(desk.gameObject);
    }

    /// <summary>Saves of the last moment are on the disk when the app pauses or has quit, without another frame.</summary>
    public static void Quits()
    {
        Start("desk");
        Task<bool> signIn = gamed.SignInAsync();
        Browse();
        Expect(Wait(signIn), "signed in");
        GamedClient client = gamed.Client;
        Task paused = gamed.SaveAsync("paused", new byte[16 << 20]);
        Stage.Pause(scene);
        Expect(paused.IsCompleted, "on the disk before the pause");
        Task quit = gamed.SaveAsync("quit", new byte[16 << 20]);
        Stage.Quit(scene);
        Expect(quit.IsCompleted, "on the disk before the end");
        using (Sync next = Sync.OpenAsync(client).Result)
            Expect(next.PeekAsync("quit").Result.Data.Length == 16 << 20, "kept");
    }

    /// <summary>The player first types a text that cannot be a code, then the code.</summary>
    public static void Types()
    {
        Stage.Phone = true;
        Start("phone");
        Task<bool> signIn = gamed.SignInAsync();
        string code = Browse();
        Stage.Until(() => Stage.Shown.Contains("Type the six letters that the sign-in page shows."), "it asks", scene);
        Stage.Typed = "BKT";
        Stage.Press = "Continue";
        Stage.Until(() => Stage.Shown.Contains("The code has six letters, like BKT-RVW."), "it says so", scene);
        Stage.Typed = code;
        Stage.Press = "Continue";
        Expect(Wait(signIn), "signed in");
        Expect(Directory.Exists(Path.Combine(folder, "phone")), "in the app's own folder");
        Stage.Destroy(scene);
    }

    /// <summary>The system opens the app with the address that the browser was redirected to.</summary>
    public static void Returns()
    {
        Stage.Phone = true;
        Start("phone", "com.example.conformance:/signin");
        Task<bool> signIn = gamed.SignInAsync();
        string back = Browse();
        Stage.Activate("com.example.conformance:/other");
        Stage.Activate(back.Replace("conformance:", "evil:"));
        Stage.Activate(back);
        Expect(Wait(signIn), "signed in");
        Stage.Destroy(scene);
        Stage.Activate(back);
    }

    /// <summary>The player presses Cancel, and sees no problem after it.</summary>
    public static void Cancels()
    {
        Start("desk");
        Task<bool> signIn = gamed.SignInAsync();
        Stage.Until(() => Stage.Shown.Contains("The sign-in continues in your browser."), "the dialog", scene);
        Stage.Press = "Copy the link";
        Stage.Until(() => Stage.Press == null, "it copies", scene);
        Expect(GUIUtility.systemCopyBuffer == Stage.Opened[0], "the link");
        Stage.Press = "Cancel";
        Expect(!Wait(signIn) && Events.Single() == "login_cancelled", "cancelled");
        Expect(!gamed.GetComponent<GamedDialog>().IsShown, "no dialog");
        Stage.Destroy(scene);
    }

    /// <summary>A problem is shown in words, until the player has read it.</summary>
    public static void Fails()
    {
        foreach (string address in new[] { server, "http://play.example.org" })
        {
            server = address;
            Start("desk");
            Expect(!Wait(gamed.SignInAsync()), "no session");
            Stage.Until(() => Stage.Shown.Contains("[Continue]"), "the dialog", scene);
            Console.WriteLine(Events.Single() + ": " + Stage.Shown[0]);
            Stage.Press = "Continue";
            Stage.Until(() => Stage.Shown.Count == 0, "it is read", scene);
            Stage.Destroy(scene);
        }
    }
}
