// A game of one number, in the console: signs in, plays offline too, asks when two devices have both saved.
//
//     mcs Example.cs GamedClient.cs GamedSync.cs GamedAssets.cs        (or: csc; or a project with these files)
//     mono Example.exe http://127.0.0.1:8080

using System;
using System.Collections.Generic;
using System.Text;
using System.Threading.Tasks;
using Gamed;

static class Example
{
    static int Main(string[] arguments)
    {
        string server = arguments.Length > 0 ? arguments[0] : "http://127.0.0.1:8080";
        return ConsolePerson.Run(person => PlayAsync(server, person));
    }

    static async Task PlayAsync(string server, ConsolePerson person)
    {
        var client = new GamedClient(server, new GamedOptions { App = "gamed-example" });
        bool here = Environment.GetEnvironmentVariable("NO_BROWSER") == null;
        var how = new SignInOptions { Loopback = here };
        if (!here)
            how.OpenBrowser = null;
        if (!await client.EnsureSignedInAsync(person, how))
            return;
        Console.WriteLine("Playing as " + (await client.CredentialAsync()).PlayerId);
        Console.WriteLine("add N | load | sync | mine | theirs | files | devices | export FILE | leave | quit");
        using (Sync sync = await Sync.OpenAsync(client))
        {
            string line = "sync";                                 // the first list, before the first read
            await TryAsync(client, sync, line);
            while ((line = await ConsolePerson.LineAsync()) != null && line != "quit")
                await TryAsync(client, sync, line.Trim());
        }
    }

    static async Task TryAsync(GamedClient client, Sync sync, string line)
    {
        try
        {
            await DoAsync(client, sync, line);
        }
        catch (GamedException error)
        {
            Console.WriteLine(error.Detail + " [" + error.Code + "]");
        }
    }

    static async Task DoAsync(GamedClient client, Sync sync, string line)
    {
        int more;
        if (line.StartsWith("add ") && int.TryParse(line.Substring(4), out more))
        {
            int sum = Number(await sync.ReadAsync("auto")) + more;
            var meta = new Dictionary<string, object> { { "title", "at " + sum } };
            await sync.WriteAsync("auto", Encoding.UTF8.GetBytes(sum.ToString()), meta);
        }
        else if (line == "sync")
            await sync.SendAsync();
        else if (line == "mine")
            foreach (SyncConflict conflict in await sync.ConflictsAsync())
                await conflict.KeepMineAsync();
        else if (line == "theirs")
            foreach (SyncConflict conflict in await sync.ConflictsAsync())
                await conflict.KeepTheirsAsync();
        else if (line == "files")
            await FilesAsync(client);
        else if (line == "devices")
            foreach (DeviceSession session in await client.ListSessionsAsync())
                Console.WriteLine((session.Current ? "* " : "  ") + session.Device + ", " + session.LastUsedAt);
        else if (line.StartsWith("export "))
            Console.WriteLine(await client.ExportAsync(line.Substring(7)) + " bytes written");
        else if (line == "leave")
            Console.WriteLine(await client.SignOutAsync() ? "Signed out." : "Signed out; the server was not notified.");
        foreach (SyncConflict conflict in await sync.ConflictsAsync())
            Console.WriteLine("Both went on: here " + Number(await conflict.MineAsync()) + ", elsewhere " +
                Number(await conflict.TheirsAsync()) + ". Keep mine or theirs?");
        Console.WriteLine("The number is " + Number(await sync.ReadAsync("auto")) + ", " +
            (await sync.StatusAsync("auto")).State);
    }

    static async Task FilesAsync(GamedClient client)
    {
        using (var assets = new Assets(client))
        {
            Manifest found = await assets.DownloadAsync("stable",
                progress => Console.WriteLine(progress.Stage + " " + progress.Done + " of " + progress.Size));
            Console.WriteLine(found.Release + " is in " + assets.Switch().Folder);
        }
    }

    static int Number(Save save)
    {
        return save == null ? 0 : int.Parse(Encoding.UTF8.GetString(save.Data));
    }

    static int Number(SyncSide side)
    {
        return side == null ? 0 : int.Parse(Encoding.UTF8.GetString(side.Data));
    }
}
