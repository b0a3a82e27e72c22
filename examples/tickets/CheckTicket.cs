// A match server in C# asks gamed who is connecting (docs/developers/tickets.md). It runs on .NET and on Mono, which
// cannot verify Ed25519. Gamed.Json is of clients/csharp/GamedClient.cs.
//
//     mcs -r:System.dll -r:System.Core.dll CheckTicket.cs GamedClient.cs
//     GAMED_MATCH_SECRET=... mono CheckTicket.exe https://play.example.org
//
// This program reads lines with a nonce and a ticket, and writes a line of JSON for each. The secret belongs on a server
// that you or the owner run, never into a game.

using System;
using System.Collections.Generic;
using System.IO;
using System.Net;
using System.Text;
using Gamed;

public sealed class TicketChecker
{
    private const int MaxTicket = 4096;
    private const string Characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    private readonly string address;
    private readonly string secret;

    /// <summary>Takes the address that the owner has published, and this server's secret.</summary>
    public TicketChecker(string server, string secret)
    {
        address = server + "/auth/tickets/introspect";
        this.secret = secret;
    }

    /// <summary>Returns the claims of a ticket for this connection; null for any other text, and if no nonce was sent.
    /// gamed has checked typ, iss, aud and exp. Throws WebException if gamed does not answer, or does not know the secret:
    /// catch it, or the next player who connects ends your server.</summary>
    public Dictionary<string, object> Check(string ticket, string nonce)
    {
        if (string.IsNullOrEmpty(nonce) || ticket.Length > MaxTicket)
            return null;
        // Before a form has six characters for an "ä": gamed refuses one of more than 8 KiB.
        foreach (char character in ticket)
            if (Characters.IndexOf(character) < 0)
                return null;
        byte[] form = Encoding.ASCII.GetBytes("token=" + Uri.EscapeDataString(ticket));
        var request = (HttpWebRequest)WebRequest.Create(address);
        request.Method = "POST";
        request.AllowAutoRedirect = false;
        request.Timeout = 10000;
        request.ContentType = "application/x-www-form-urlencoded";
        request.Headers["Authorization"] = "Bearer " + secret;
        using (Stream body = request.GetRequestStream())
            body.Write(form, 0, form.Length);
        using (var answer = (HttpWebResponse)request.GetResponse())
        using (var text = new StreamReader(answer.GetResponseStream(), Encoding.UTF8))
        {
            var claims = (Dictionary<string, object>)Json.Parse(text.ReadToEnd());
            bool active = answer.StatusCode == HttpStatusCode.OK && true.Equals(claims["active"]);
            object found;
            return active && claims.TryGetValue("nonce", out found) && nonce.Equals(found) ? claims : null;
        }
    }

    public static void Main(string[] arguments)
    {
        var checker = new TicketChecker(arguments[0], Environment.GetEnvironmentVariable("GAMED_MATCH_SECRET"));
        for (string line = Console.ReadLine(); line != null; line = Console.ReadLine())
        {
            string[] words = line.Split(new[] { ' ' }, 2);
            try
            {
                var found = checker.Check(words[words.Length - 1], words.Length == 2 ? words[0] : null);
                string player = found == null ? "" : (string)found["sub"];
                Console.WriteLine(found == null ? "{\"refused\":\"by gamed\"}" : "{\"player\":\"" + player + "\"}");
            }
            catch (WebException error)
            {
                Console.WriteLine("{\"refused\":\"" + error.Status + "\"}");
            }
        }
    }
}
