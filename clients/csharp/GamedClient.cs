// Client of a gamed server, protocol 1.0: sign in, stay signed in, keep saves. For Unity, BepInEx and any .NET.
//
// One file, nothing beyond mscorlib, System and System.Core; C# 6, .NET 4.6 or netstandard2.0: copy it into a game.
//
//     var client = new GamedClient("https://play.example.org", new GamedOptions { App = "mygame" });
//     if (!await client.EnsureSignedInAsync(new MyDialogs()))     // an IPerson: how the game asks and shows
//         return;                                                 // the player has seen why
//     Save save = await client.GetAsync("auto");                  // null: never saved
//     await client.PutAsync("auto", bytes, save);                 // throws ConflictException, and loses neither side
//
// To play offline too, copy GamedSync.cs along; to download the game's files, GamedAssets.cs.
//
// Every failure is a GamedException with the Code of the protocol and a Detail that a person can read. Methods may be
// called from any thread and do their work on threads of the pool; several processes may share one sign-in.

using System;
using System.Collections;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.ComponentModel;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Runtime.ExceptionServices;
using System.Runtime.InteropServices;
using System.Security.Cryptography;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;

namespace Gamed
{
    // --- Errors: one class for each thing a game does about them; the table of Errors has the codes of each ----------

    /// <summary>The older name of <see cref="GamedException"/>: <see cref="Code"/> is for the program,
    /// <see cref="Detail"/> for the person.</summary>
    public partial class GamedError : Exception
    {
        internal GamedError(Failure how) : base(how.Detail + " (" + how.Code + ")", how.Inner)
        {
            Code = how.Code;
            Detail = how.Detail;
            Status = how.Status;
            Problem = how.Problem ?? new Dictionary<string, object>();
        }

        /// <summary>`code` for the program, `detail` for the person.</summary>
        public GamedError(string code, string detail, int status = 0, IDictionary<string, object> problem = null,
            Exception inner = null) : this(new Failure(code, detail, inner) { Status = status, Problem = problem }) { }

        /// <summary>The protocol's code, or one of this client's own.</summary>
        public string Code { get; private set; }

        /// <summary>A text for the player that says how to continue, in English.</summary>
        public string Detail { get; private set; }

        /// <summary>HTTP status; 0 if the error comes from the client itself.</summary>
        public int Status { get; private set; }

        /// <summary>Every member of the problem (RFC 9457).</summary>
        public IDictionary<string, object> Problem { get; private set; }

        /// <summary>Seconds that the server asks to wait, or null.</summary>
        public double? RetryAfter { get; internal set; }

        /// <summary>An earlier try of the same request got no response: the server may have performed it
        /// already.</summary>
        public bool AnswerLostBefore { get; internal set; }

        /// <summary>True if the failure is temporary; the client has retried already.</summary>
        public virtual bool Passing =>
            this is Unreachable || this is Busy || this is RateLimited || this is DownloadCorrupt;
    }

    /// <summary>A failure: Code is for the program, Detail for the person.</summary>
    public class GamedException : GamedError
    {
        internal GamedException(Failure how) : base(how) { }

        /// <summary>`code` for the program, `detail` for the person.</summary>
        public GamedException(string code, string detail, int status = 0, IDictionary<string, object> problem = null,
            Exception inner = null) : base(code, detail, status, problem, inner) { }
    }

    /// <summary>The parts of an error.</summary>
    sealed class Failure
    {
        internal readonly string Code, Detail;
        internal readonly Exception Inner;
        internal int Status;
        internal IDictionary<string, object> Problem;

        internal Failure(string code, string detail, Exception inner = null)
        {
            Code = code;
            Detail = detail;
            Inner = inner;
        }
    }

    // The client throws the classes named ...Exception. Each derives from the class with its older name, so that a game
    // can catch either until 1.0. Those without members are together below.

    /// <summary>The older name of <see cref="UnreachableException"/>.</summary>
    public class Unreachable : GamedException
    {
        internal Unreachable(Failure how) : base(how) { }

        /// <summary>`code` for the program, `detail` for the person.</summary>
        public Unreachable(string code, string detail, int status = 0, IDictionary<string, object> problem = null,
            Exception inner = null) : base(code, detail, status, problem, inner) { }
    }

    /// <summary>The response is missing or incomplete, or comes from a front proxy that cannot reach its
    /// server.</summary>
    public class UnreachableException : Unreachable
    {
        /// <summary>`code` for the program, `detail` for the person.</summary>
        public UnreachableException(string code, string detail, int status = 0,
            IDictionary<string, object> problem = null, Exception inner = null)
                : base(code, detail, status, problem, inner) { }
    }

    /// <summary>The server cannot perform the request now.</summary>
    public class BusyException : Busy { internal BusyException(Failure how) : base(how) { } }

    /// <summary>Too many requests; see <see cref="GamedError.RetryAfter"/>.</summary>
    public class RateLimitedException : RateLimited { internal RateLimitedException(Failure how) : base(how) { } }

    /// <summary>The received bytes do not match the digest that the server sent.</summary>
    public class DownloadCorruptException : DownloadCorrupt
    {
        internal DownloadCorruptException(Failure how) : base(how) { }
    }

    /// <summary>The server at this address does not speak this protocol.</summary>
    public class NotGamedException : NotGamed
    {
        internal NotGamedException(string detail, int status = 0, Exception inner = null)
            : base(new Failure("not_gamed", detail, inner) { Status = status }) { }
    }

    /// <summary>The older name of <see cref="UntrustedAddressException"/>.</summary>
    public class UntrustedAddress : GamedException
    {
        internal UntrustedAddress(Failure how) : base(how) { }

        /// <summary>`code` for the program, `detail` for the person.</summary>
        public UntrustedAddress(string code, string detail, Exception inner = null)
            : base(new Failure(code, detail, inner)) { }

        /// <summary>`detail` for the person.</summary>
        public UntrustedAddress(string detail) : this("untrusted_address", detail) { }
    }

    /// <summary>An address that must not be used: plain http on the network, or a link to another server.</summary>
    public class UntrustedAddressException : UntrustedAddress
    {
        /// <summary>`code` for the program, `detail` for the person.</summary>
        public UntrustedAddressException(string code, string detail, Exception inner = null)
            : base(code, detail, inner) { }

        /// <summary>`detail` for the person.</summary>
        public UntrustedAddressException(string detail) : base(detail) { }
    }

    /// <summary>The server rejected the request; sending it again gives the same error.</summary>
    public class RefusedException : Refused { internal RefusedException(Failure how) : base(how) { } }

    /// <summary>No player is signed in on this device, or the session has ended.</summary>
    public class SignInRequiredException : SignInRequired
    {
        internal SignInRequiredException(Failure how) : base(how) { }
    }

    /// <summary>Another player has signed in on this device meanwhile; nothing was read or written in their
    /// name.</summary>
    public class PlayerChangedException : PlayerChanged
    {
        internal PlayerChangedException()
            : base(new Failure("player_changed", "Another player signed in here meanwhile.")) { }
    }

    /// <summary>The owner of this server does not let the player in.</summary>
    public class PlayerBlockedException : PlayerBlocked { internal PlayerBlockedException(Failure how) : base(how) { } }

    /// <summary>The sign-in ended without credentials; start another one.</summary>
    public class LoginFailedException : LoginFailed { internal LoginFailedException(Failure how) : base(how) { } }

    /// <summary>The player declined, in the browser or at the provider.</summary>
    public class LoginDeclinedException : LoginDeclined { internal LoginDeclinedException(Failure how) : base(how) { } }

    /// <summary>The older name of <see cref="LoginCancelledException"/>.</summary>
    public class LoginCancelled : LoginFailedException
    {
        internal LoginCancelled(Failure how) : base(how) { }

        /// <summary>`code` for the program, `detail` for the person.</summary>
        public LoginCancelled(string code, string detail, IDictionary<string, object> problem = null)
            : base(new Failure(code, detail) { Problem = problem }) { }
    }

    /// <summary>The game or the player cancelled the sign-in on this device.</summary>
    public class LoginCancelledException : LoginCancelled
    {
        internal LoginCancelledException(Failure how) : base(how) { }

        /// <summary>`code` for the program, `detail` for the person.</summary>
        public LoginCancelledException(string code, string detail, IDictionary<string, object> problem = null)
            : base(code, detail, problem) { }
    }

    /// <summary>The sign-in was not finished in time.</summary>
    public class LoginExpiredException : LoginExpired { internal LoginExpiredException(Failure how) : base(how) { } }

    /// <summary>The older name of <see cref="InvalidProofException"/>.</summary>
    public class InvalidProof : GamedException
    {
        internal InvalidProof(Failure how) : base(how) { }

        /// <summary>The number of further attempts; 0: the sign-in has ended.</summary>
        public int AttemptsLeft => (int)(Members.Maybe<long?>(Problem, "attempts_left") ?? 0);
    }

    /// <summary>The finish code is wrong.</summary>
    public class InvalidProofException : InvalidProof { internal InvalidProofException(Failure how) : base(how) { } }

    /// <summary>The server has no such save, version, session or file.</summary>
    public class NotFoundException : NotFound { internal NotFoundException(Failure how) : base(how) { } }

    /// <summary>The save was deleted; its versions can still be restored.</summary>
    public class DeletedException : Deleted { internal DeletedException(Failure how) : base(how) { } }

    /// <summary>The version that was passed is the current one (304).</summary>
    public class NotModifiedException : NotModified
    {
        internal NotModifiedException()
            : base(new Failure("not_modified", "You have the current version.") { Status = 304 }) { }
    }

    /// <summary>The slot exists: pass the version that this write is based on.</summary>
    public class BaseRequiredException : BaseRequired { internal BaseRequiredException(Failure how) : base(how) { } }

    /// <summary>The older name of <see cref="ConflictException"/>.</summary>
    public class Conflict : GamedException
    {
        internal Conflict(Failure how) : base(how) { }

        /// <summary>The save that the write was based on, or null.</summary>
        public SaveInfo Base => SaveInfo.Maybe(Members.Maybe<object>(Problem, "base"));

        /// <summary>The current save of the slot, or null.</summary>
        public SaveInfo Current => SaveInfo.Maybe(Members.Maybe<object>(Problem, "current"));

        /// <summary>The refused bytes, as the server keeps them, or null.</summary>
        public SaveInfo Yours => SaveInfo.Maybe(Members.Maybe<object>(Problem, "yours"));

        /// <summary>The sides of each slot of a commit whose base did not match. Empty for a single write.</summary>
        public IList<SlotConflict> Slots =>
            Members.List(Problem, "conflicts").OfType<IDictionary<string, object>>().Select(SlotConflict.Of).ToList()
                .AsReadOnly();
    }

    /// <summary>Another device wrote first. The server kept your bytes too, as Yours, unless Detail gives a reason
    /// (docs/protocol.md: Conditions and ranges).</summary>
    public class ConflictException : Conflict { internal ConflictException(Failure how) : base(how) { } }

    /// <summary>One slot of a refused commit.</summary>
    public sealed class SlotConflict
    {
        /// <summary>The slot's name.</summary>
        public string Slot { get; private set; }

        /// <summary>The code that the write would have got alone.</summary>
        public string Code { get; private set; }

        /// <summary>The save that the write was based on, or null.</summary>
        public SaveInfo Base { get; private set; }

        /// <summary>The current save of the slot, or null.</summary>
        public SaveInfo Current { get; private set; }

        /// <summary>The refused bytes, as the server keeps them, or null.</summary>
        public SaveInfo Yours { get; private set; }

        internal static SlotConflict Of(IDictionary<string, object> value) =>
            new SlotConflict
            {
                Slot = Members.Of<string>(value, "slot"),
                Code = Members.Maybe<string>(value, "code") ?? "version_conflict",
                Base = SaveInfo.Maybe(Members.Maybe<object>(value, "base")),
                Current = SaveInfo.Maybe(Members.Maybe<object>(value, "current")),
                Yours = SaveInfo.Maybe(Members.Maybe<object>(value, "yours")),
            };
    }

    /// <summary>The player has reached a limit; see `limit` and `usage` of <see cref="GamedError.Problem"/>.</summary>
    public class QuotaExceededException : QuotaExceeded { internal QuotaExceededException(Failure how) : base(how) { } }

    /// <summary>The owner's disk is full.</summary>
    public class StorageFullException : StorageFull { internal StorageFullException(Failure how) : base(how) { } }

    /// <summary>The server's copy is damaged; <see cref="GamedError.Detail"/> names the newest good version.</summary>
    public class SaveCorruptException : SaveCorrupt { internal SaveCorruptException(Failure how) : base(how) { } }

    /// <summary>Another process, or another object of this one, has the folder open.</summary>
    public class InUseException : InUse { internal InUseException(Failure how) : base(how) { } }

    /// <summary>This device cannot read or write a file, or a file does not have the bytes that were written.</summary>
    public class LocalDamagedException : LocalDamaged { internal LocalDamagedException(Failure how) : base(how) { } }

    // Older names of the classes above, until 1.0.

    /// <summary>The older name of <see cref="BusyException"/>.</summary>
    public class Busy : GamedException { internal Busy(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="RateLimitedException"/>.</summary>
    public class RateLimited : GamedException { internal RateLimited(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="DownloadCorruptException"/>.</summary>
    public class DownloadCorrupt : GamedException { internal DownloadCorrupt(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="NotGamedException"/>.</summary>
    public class NotGamed : GamedException { internal NotGamed(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="RefusedException"/>.</summary>
    public class Refused : GamedException { internal Refused(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="SignInRequiredException"/>.</summary>
    public class SignInRequired : GamedException { internal SignInRequired(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="PlayerChangedException"/>.</summary>
    public class PlayerChanged : SignInRequiredException { internal PlayerChanged(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="PlayerBlockedException"/>.</summary>
    public class PlayerBlocked : GamedException { internal PlayerBlocked(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="LoginFailedException"/>.</summary>
    public class LoginFailed : GamedException { internal LoginFailed(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="LoginDeclinedException"/>.</summary>
    public class LoginDeclined : LoginFailedException { internal LoginDeclined(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="LoginExpiredException"/>.</summary>
    public class LoginExpired : LoginFailedException { internal LoginExpired(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="NotFoundException"/>.</summary>
    public class NotFound : GamedException { internal NotFound(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="DeletedException"/>.</summary>
    public class Deleted : NotFoundException { internal Deleted(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="NotModifiedException"/>.</summary>
    public class NotModified : GamedException { internal NotModified(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="BaseRequiredException"/>.</summary>
    public class BaseRequired : GamedException { internal BaseRequired(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="QuotaExceededException"/>.</summary>
    public class QuotaExceeded : GamedException { internal QuotaExceeded(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="StorageFullException"/>.</summary>
    public class StorageFull : GamedException { internal StorageFull(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="SaveCorruptException"/>.</summary>
    public class SaveCorrupt : GamedException { internal SaveCorrupt(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="InUseException"/>.</summary>
    public class InUse : GamedException { internal InUse(Failure how) : base(how) { } }
    /// <summary>The older name of <see cref="LocalDamagedException"/>.</summary>
    public class LocalDamaged : GamedException { internal LocalDamaged(Failure how) : base(how) { } }

    /// <summary>The errors of responses and of exceptions.</summary>
    static class Errors
    {
        static readonly Func<Failure, GamedException> Refused = how => new RefusedException(how);
        static readonly Func<Failure, GamedException> Conflict = how => new ConflictException(how);

        /// <summary>The class of each code of a problem; of others it is Refused.</summary>
        static readonly Dictionary<string, Func<Failure, GamedException>> Classes = Table(
            Row("busy shutting_down unhealthy store_unavailable provider_unavailable request_timeout",
                how => new BusyException(how)),
            Row("rate_limited", how => new RateLimitedException(how)),
            Row("token_missing token_expired token_invalid session_revoked refresh_expired refresh_reused " +
                "refresh_invalid reauthentication_required", how => new SignInRequiredException(how)),
            Row("player_blocked player_pending registration_closed", how => new PlayerBlockedException(how)),
            Row("device_secret_invalid login_collected", how => new LoginFailedException(how)),
            Row("invalid_proof", how => new InvalidProofException(how)),
            Row("version_conflict superseded", Conflict),
            Row("deleted erased", how => new DeletedException(how)),
            Row("save_not_found version_gone session_not_found channel_not_found release_not_found file_not_found",
                how => new NotFoundException(how)),
            Row("precondition_required", how => new BaseRequiredException(how)),
            Row("save_too_large quota_exceeded too_many_slots", how => new QuotaExceededException(how)),
            Row("storage_full", how => new StorageFullException(how)),
            Row("corrupt_blob", how => new SaveCorruptException(how)));

        /// <summary>The class of each code of a sign-in that has failed; of others it is LoginFailed.</summary>
        static readonly Dictionary<string, Func<Failure, GamedException>> Ends = Table(
            Row("login_denied provider_denied", how => new LoginDeclinedException(how)),
            Row("login_cancelled", how => new LoginCancelledException(how)),
            Row("login_expired", how => new LoginExpiredException(how)));

        static KeyValuePair<string, Func<Failure, GamedException>> Row(string codes,
            Func<Failure, GamedException> make) =>
            new KeyValuePair<string, Func<Failure, GamedException>>(codes, make);

        static Dictionary<string, Func<Failure, GamedException>> Table(
            params KeyValuePair<string, Func<Failure, GamedException>>[] rows) =>
            rows.SelectMany(row => row.Key.Split(' '), (row, code) => Row(code, row.Value))
                .ToDictionary(row => row.Key, row => row.Value);

        internal static GamedException SignedOut() =>
            new SignInRequiredException(new Failure("signed_out", "No player is signed in here."));

        internal static GamedException Cancelled() =>
            new LoginCancelledException("login_cancelled", "The sign-in was cancelled.");

        /// <summary>Returns whether the client deletes its refresh credential: only after these codes
        /// (docs/protocol.md: Rules for clients).</summary>
        internal static bool Forgets(GamedError error) =>
            In(error.Code, "refresh_expired refresh_reused refresh_invalid session_revoked");

        /// <summary>Returns whether only another sign-in helps after this error of a request with a
        /// credential.</summary>
        internal static bool NeedsSignIn(GamedError error) =>
            Forgets(error) || In(error.Code, "token_invalid signed_out");

        internal static bool Renews(GamedError error) => In(error.Code, "token_expired token_invalid");

        static bool In(string code, string codes) => codes.Split(' ').Contains(code);

        /// <summary>Returns the error of a response that is not a success, by its `code`.</summary>
        internal static GamedError Of(Answer answer)
        {
            IDictionary<string, object> problem = null;
            if (answer.MediaType == "application/problem+json")
            {
                try
                {
                    problem = answer.Json();
                }
                catch (NotGamedException)
                {
                }
            }
            string code = Members.Maybe<string>(problem, "code");
            GamedError error = code == null ? OfStatus(answer) : OfCode(code, Words(problem, code), answer, problem);
            string after = answer.Header("Retry-After");
            if (Regex.IsMatch(after, @"\A[0-9]+\z"))
                error.RetryAfter = int.Parse(after.Length > 6 ? "999999" : after, CultureInfo.InvariantCulture);
            return error;
        }

        static string Words(IDictionary<string, object> problem, string code) =>
            Members.Maybe<string>(problem, "detail") ?? Members.Maybe<string>(problem, "title") ?? code;

        static GamedError OfCode(string code, string detail, Answer answer, IDictionary<string, object> problem)
        {
            bool conflict = code == "deleted" && answer.Status == 412;
            Func<Failure, GamedException> make = conflict ? Conflict : Classes.Find(code) ?? Refused;
            return make(new Failure(code, detail) { Status = answer.Status, Problem = problem });
        }

        /// <summary>Returns the error of a response without a problem. gamed always sends one, so a proxy in front of
        /// it has responded.</summary>
        static GamedError OfStatus(Answer answer)
        {
            int status = answer.Status;
            string http = " (HTTP " + status.ToString(CultureInfo.InvariantCulture) + ").";
            if (status == 304)
                return new NotModifiedException();
            if (status == 429)
                return Classes["rate_limited"](new Failure("rate_limited", "Too many requests; try again later.")
                {
                    Status = status,
                });
            if (status == 408 || status == 502 || status == 503 || status == 504)
                return new UnreachableException("unreachable", "The server is away for the moment" + http, status);
            if (status >= 300 && status < 400)
                return new NotGamedException("This address leads elsewhere" + http, status);
            return new NotGamedException("No gamed server answers at this address" + http, status);
        }

        /// <summary>Returns the error for an exception of this device's disk; null for any other.</summary>
        internal static GamedError OfDisk(Exception error)
        {
            if (!(error is IOException || error is UnauthorizedAccessException || error is Win32Exception))
                return null;
            string detail = "This device cannot store anything. Make space on its disk, then try again.";
            return new LocalDamagedException(new Failure("local_disk", detail, error));
        }

        /// <summary>Runs `work`; throws LocalDamaged for an exception of this device's disk.</summary>
        internal static T OnDisk<T>(Func<T> work)
        {
            try
            {
                return work();
            }
            catch (Exception error)
            {
                GamedError problem = OfDisk(error);
                if (problem == null)
                    throw;
                throw problem;
            }
        }

        /// <summary>Runs `work`; throws LocalDamaged for an exception of this device's disk.</summary>
        internal static void OnDisk(Action work) =>
            OnDisk(() =>
            {
                work();
                return true;
            });

        /// <summary>Awaits `work`; throws LocalDamaged for an exception of this device's disk.</summary>
        internal static async Task<T> OnDiskAsync<T>(Task<T> work)
        {
            try
            {
                return await work.ConfigureAwait(false);
            }
            catch (Exception error)
            {
                GamedError problem = OfDisk(error);
                if (problem == null)
                    throw;
                throw problem;
            }
        }

        /// <summary>Returns the result of `parse`; throws NotGamedException with this text for its
        /// FormatException.</summary>
        internal static T Parsed<T>(Func<T> parse, string text, int status = 0)
        {
            try
            {
                return parse();
            }
            catch (FormatException e)
            {
                throw new NotGamedException(text, status, e);
            }
        }

        /// <summary>Returns the error of a sign-in that has failed.</summary>
        internal static GamedException OfLogin(IDictionary<string, object> problem)
        {
            string code = Members.Of<string>(problem, "code");
            Func<Failure, GamedException> make = Ends.Find(code) ?? (how => new LoginFailedException(how));
            return make(new Failure(code, Words(problem, code)) { Problem = problem });
        }
    }

    // --- JSON --------------------------------------------------------------------------------------------------------

    /// <summary>
    /// JSON (RFC 8259), strict: one value, unique names, no lone surrogates, at most <see cref="Depth"/> levels.
    /// Objects are Dictionary&lt;string, object&gt;, arrays List&lt;object&gt;, numbers long, else decimal or double.
    /// </summary>
    public static class Json
    {
        /// <summary>The largest number of nested objects and arrays.</summary>
        public const int Depth = 32;

        static readonly UTF8Encoding Utf8 = new UTF8Encoding(false, true);

        /// <summary>Parses a text; throws FormatException.</summary>
        public static object Parse(string text) => new Reader(text).Whole();

        /// <summary>Parses UTF-8; throws FormatException.</summary>
        public static object Parse(byte[] text)
        {
            try
            {
                return Parse(Utf8.GetString(text));
            }
            catch (ArgumentException e)
            {
                throw new FormatException("not UTF-8", e);
            }
        }

        /// <summary>Encodes a value as one line of ASCII. Throws ArgumentException for values that JSON does not
        /// have.</summary>
        public static string Write(object value)
        {
            var text = new StringBuilder();
            Write(text, value, 0);
            return text.ToString();
        }

        /// <summary>Compares two values; the order of names does not count, and 1 equals 1.0.</summary>
        public static bool Same(object one, object other)
        {
            var left = one as IDictionary<string, object>;
            var right = other as IDictionary<string, object>;
            if (left != null || right != null)
                return left != null && right != null && left.Count == right.Count
                    && left.All(pair => right.ContainsKey(pair.Key) && Same(pair.Value, right[pair.Key]));
            var leftList = one as IList<object>;
            var rightList = other as IList<object>;
            if (leftList != null || rightList != null)
                return leftList != null && rightList != null && leftList.Count == rightList.Count
                    && leftList.Zip(rightList, Same).All(same => same);
            if (one is long && other is long)
                return (long)one == (long)other;
            if (IsNumber(one) && IsNumber(other))
                return Convert.ToDouble(one, CultureInfo.InvariantCulture).Equals(
                    Convert.ToDouble(other, CultureInfo.InvariantCulture));
            return Equals(one, other);
        }

        static bool IsNumber(object value) =>
            value is long || value is int || value is double || value is decimal || value is float
                || value is short || value is byte || value is uint || value is ulong || value is ushort
                || value is sbyte;

        static void Write(StringBuilder text, object value, int depth)
        {
            if (depth > Depth)
                throw new ArgumentException("JSON: nested too deep");
            if (value == null)
                text.Append("null");
            else if (value is bool)
                text.Append((bool)value ? "true" : "false");
            else if (value is string)
                WriteString(text, (string)value);
            else if (IsNumber(value))
                text.Append(Number(value));
            else if (value is IDictionary)
                WriteObject(text, (IDictionary)value, depth);
            else if (value is IEnumerable)
                WriteArray(text, (IEnumerable)value, depth);
            else
                throw new ArgumentException("JSON has no " + value.GetType().Name);
        }

        static string Number(object value)
        {
            if (!(value is double || value is float))
                return Convert.ToString(value, CultureInfo.InvariantCulture);
            double number = Convert.ToDouble(value, CultureInfo.InvariantCulture);
            if (double.IsNaN(number) || double.IsInfinity(number))
                throw new ArgumentException("JSON has no infinite numbers");
            return number.ToString("R", CultureInfo.InvariantCulture);
        }

        static void WriteObject(StringBuilder text, IDictionary value, int depth)
        {
            string comma = "{";
            foreach (DictionaryEntry entry in value)
            {
                if (!(entry.Key is string))
                    throw new ArgumentException("JSON: names are text");
                text.Append(comma);
                WriteString(text, (string)entry.Key);
                text.Append(':');
                Write(text, entry.Value, depth + 1);
                comma = ",";
            }
            text.Append(comma == "{" ? "{}" : "}");
        }

        static void WriteArray(StringBuilder text, IEnumerable value, int depth)
        {
            string comma = "[";
            foreach (object item in value)
            {
                text.Append(comma);
                Write(text, item, depth + 1);
                comma = ",";
            }
            text.Append(comma == "[" ? "[]" : "]");
        }

        static void WriteString(StringBuilder text, string value)
        {
            if (!IsWhole(value))
                throw new ArgumentException("JSON: half a character");
            text.Append('"');
            foreach (char c in value)
                if (c == '"' || c == '\\')
                    text.Append('\\').Append(c);
                else if (c >= ' ' && c <= '~')
                    text.Append(c);
                else
                    text.Append("\\u").Append(((int)c).ToString("x4", CultureInfo.InvariantCulture));
            text.Append('"');
        }

        /// <summary>Returns whether the text has only whole characters: a lone surrogate is half of one.</summary>
        static bool IsWhole(string text)
        {
            for (int at = 0; at < text.Length; at++)
                if (char.IsSurrogatePair(text, at))
                    at++;
                else if (char.IsSurrogate(text[at]))
                    return false;
            return true;
        }

        sealed class Reader
        {
            readonly string text;
            int at;

            internal Reader(string text)
            {
                this.text = text;
            }

            internal object Whole()
            {
                object value = Value(0);
                Space();
                if (at != text.Length)
                    throw Wrong("nothing more");
                return value;
            }

            object Value(int depth)
            {
                Space();
                char c = Peek();
                if (depth == Depth && (c == '{' || c == '['))
                    throw Wrong("less depth");
                if (c == '{')
                    return Object(depth);
                if (c == '[')
                    return Array(depth);
                if (c == '"')
                    return String();
                if (c == '-' || IsDigit(c))
                    return ReadNumber();
                if (Word("true"))
                    return true;
                if (Word("false"))
                    return false;
                if (Word("null"))
                    return null;
                throw Wrong("a value");
            }

            object Object(int depth)
            {
                var value = new Dictionary<string, object>(StringComparer.Ordinal);
                at++;
                if (Next('}'))
                    return value;
                do
                {
                    Space();
                    if (Peek() != '"')
                        throw Wrong("a name");
                    string name = String();
                    if (value.ContainsKey(name))
                        throw Wrong("each name once");
                    Need(':');
                    value[name] = Value(depth + 1);
                }
                while (Next(','));
                Need('}');
                return value;
            }

            object Array(int depth)
            {
                var value = new List<object>();
                at++;
                if (Next(']'))
                    return value;
                do
                    value.Add(Value(depth + 1));
                while (Next(','));
                Need(']');
                return value;
            }

            string String()
            {
                var value = new StringBuilder();
                for (at++; Peek() != '"'; at++)
                {
                    char c = text[at];
                    if (c < ' ')
                        throw Wrong("no control characters");
                    value.Append(c == '\\' ? Escaped() : c);
                }
                at++;
                string found = value.ToString();
                if (!IsWhole(found))
                    throw Wrong("whole characters");
                return found;
            }

            char Escaped()
            {
                at++;
                char c = Peek();
                int found = "\"\\/bfnrt".IndexOf(c);
                if (found >= 0)
                    return "\"\\/\b\f\n\r\t"[found];
                string digits = c == 'u' && at + 4 < text.Length ? text.Substring(at + 1, 4) : "";
                if (!Regex.IsMatch(digits, @"\A[0-9A-Fa-f]{4}\z"))
                    throw Wrong("an escape");
                at += 4;
                return (char)int.Parse(digits, NumberStyles.HexNumber, CultureInfo.InvariantCulture);
            }

            object ReadNumber()
            {
                int from = at;
                Skip('-');
                if (!Skip('0'))
                    Digits();
                bool fraction = Skip('.');
                if (fraction)
                    Digits();
                bool exponent = Skip('e') || Skip('E');
                if (exponent)
                {
                    if (!Skip('+'))
                        Skip('-');
                    Digits();
                }
                string digits = text.Substring(from, at - from);
                return NumberOf(digits, !fraction && !exponent && digits != "-0");
            }

            object NumberOf(string digits, bool whole)
            {
                const NumberStyles Whole = NumberStyles.AllowLeadingSign;
                long number;
                decimal large;
                double real;
                if (whole && long.TryParse(digits, Whole, CultureInfo.InvariantCulture, out number))
                    return number;
                if (whole && decimal.TryParse(digits, Whole, CultureInfo.InvariantCulture, out large))
                    return large;
                if (double.TryParse(digits, NumberStyles.Float, CultureInfo.InvariantCulture, out real)
                    && !double.IsInfinity(real))
                    return real;
                throw Wrong("a smaller number");
            }

            void Digits()
            {
                if (!IsDigit(Peek()))
                    throw Wrong("a digit");
                while (at < text.Length && IsDigit(text[at]))
                    at++;
            }

            static bool IsDigit(char c) => c >= '0' && c <= '9';

            bool Word(string word)
            {
                if (string.CompareOrdinal(text, at, word, 0, word.Length) != 0)
                    return false;
                at += word.Length;
                return true;
            }

            /// <summary>Skips space and `c`; returns false if something else follows.</summary>
            bool Next(char c)
            {
                Space();
                Peek();
                return Skip(c);
            }

            bool Skip(char c)
            {
                if (at == text.Length || text[at] != c)
                    return false;
                at++;
                return true;
            }

            void Need(char c)
            {
                if (!Next(c))
                    throw Wrong("'" + c + "'");
            }

            char Peek()
            {
                if (at >= text.Length)
                    throw Wrong("more");
                return text[at];
            }

            void Space()
            {
                while (at < text.Length && " \t\n\r".IndexOf(text[at]) >= 0)
                    at++;
            }

            FormatException Wrong(string expected)
            {
                string where = at.ToString(CultureInfo.InvariantCulture);
                return new FormatException("JSON: expected " + expected + " at " + where);
            }
        }
    }

    /// <summary>Members of JSON objects.</summary>
    static class Members
    {
        /// <summary>Returns a required member of the protocol; throws NotGamedException unless it has this
        /// type.</summary>
        internal static T Of<T>(IDictionary<string, object> of, string name)
        {
            object value = of?.Find(name);
            if (!(value is T))
                throw new NotGamedException("The server's answer lacks '" + name + "'.");
            return (T)value;
        }

        /// <summary>Returns an optional member; the type's default if it is missing or has another type.</summary>
        internal static T Maybe<T>(IDictionary<string, object> of, string name)
        {
            object value = of?.Find(name);
            return value is T ? (T)value : default(T);
        }

        /// <summary>Returns an optional list; an empty one if it is missing or is not a list.</summary>
        internal static List<object> List(IDictionary<string, object> of, string name) =>
            Maybe<List<object>>(of, name) ?? new List<object>();

        internal static IEnumerable<IDictionary<string, object>> Objects(IDictionary<string, object> of, string name) =>
            Of<List<object>>(of, name).OfType<IDictionary<string, object>>();

        /// <summary>Returns the value of a key; the type's default if there is none.</summary>
        internal static T Find<T>(this IDictionary<string, T> of, string key)
        {
            T value;
            return of.TryGetValue(key, out value) ? value : default(T);
        }
    }

    // --- Addresses ---------------------------------------------------------------------------------------------------

    /// <summary>Scheme, host and port: the identity of a server. https, or http on this machine only.</summary>
    public sealed class Origin
    {
        static readonly Regex Hosts = new Regex(@"\A([a-z0-9_-]+(\.[a-z0-9_-]+)*|[0-9a-f:.]+)\z");
        static readonly Regex Links = new Regex(@"\A[A-Za-z0-9._~:/?#\[\]@!$&()*+,;=%-]{1,2048}\z");
        static readonly Regex Parts = new Regex(
            @"\A([A-Za-z][A-Za-z0-9+.-]*)://(?:\[([^\[\]/?#@]*)\]|([^\[\]:/?#@\\]*))(?::([0-9]{1,5}))?((?:[/?#].*)?)\z",
            RegexOptions.Singleline);

        Origin(string scheme, string host, int port)
        {
            Scheme = scheme;
            Host = host;
            Port = port;
        }

        /// <summary>https or http.</summary>
        public string Scheme { get; private set; }

        /// <summary>Lower case, without brackets.</summary>
        public string Host { get; private set; }

        /// <summary>1 to 65535.</summary>
        public int Port { get; private set; }

        /// <summary>
        /// Parses an address as players type it: `play.example.org`, `https://play.example.org:8443`,
        /// `http://127.0.0.1:8080`. Throws <see cref="UntrustedAddressException"/>.
        /// </summary>
        public static Origin Entered(string address)
        {
            address = address.Trim();
            if (!address.Contains("://"))
                address = (IsLoopback(Split("https://" + address).Host) ? "http://" : "https://") + address;
            Origin origin = Split(address);
            string rest = Parts.Match(address).Groups[5].Value;
            if (rest != "" && rest != "/")
                throw new UntrustedAddressException("Enter only the name of the server: " + origin);
            return origin;
        }

        /// <summary>Parses a URL that a server sent; rejects, not repairs, an unusual one.</summary>
        public static Origin Of(string url)
        {
            if (!Links.IsMatch(url))
                throw new UntrustedAddressException("The link has characters that do not belong in one.");
            return Split(url);
        }

        static Origin Split(string url)
        {
            Match parts = Parts.Match(url);
            string scheme = parts.Groups[1].Value.ToLowerInvariant(), port = parts.Groups[4].Value;
            string host = parts.Groups[2].Success ? parts.Groups[2].Value : Ascii(parts.Groups[3].Value);
            host = host.ToLowerInvariant().TrimEnd('.');
            int number = port == "" ? (scheme == "https" ? 443 : 80) : int.Parse(port, CultureInfo.InvariantCulture);
            bool known = (scheme == "https" || scheme == "http") && number > 0 && number < 65536;
            if (!parts.Success || !known || !Hosts.IsMatch(host) || parts.Groups[2].Success != host.Contains(":"))
                throw new UntrustedAddressException("That is not the address of a server.");
            if (scheme == "http" && !IsLoopback(host))
                throw new UntrustedAddressException(host + " needs https://, so that others cannot listen in.");
            return new Origin(scheme, host, number);
        }

        static string Ascii(string host)
        {
            try
            {
                return host.All(c => c < 128) ? host : new IdnMapping().GetAscii(host);
            }
            catch (ArgumentException)
            {
                return "";
            }
        }

        static bool IsLoopback(string host) => host == "localhost" || host == "127.0.0.1" || host == "::1";

        /// <summary>Returns `url` if it has this origin: a server must not send a player's browser to another server.
        /// Else throws <see cref="UntrustedAddressException"/>.</summary>
        public string Require(string url)
        {
            Origin other = Of(url);
            if (!Equals(other))
                throw new UntrustedAddressException(this + " sends you to " + other +
                    ". If that is its true address, enter that one instead.");
            return url;
        }

        /// <summary>Returns the path of a URL of this server, without query.</summary>
        internal string PathOf(string url)
        {
            string rest = Parts.Match(Require(url)).Groups[5].Value;
            return rest.Split('?', '#')[0];
        }

        /// <summary>Returns the URL, without a slash at the end.</summary>
        public override string ToString()
        {
            string host = Host.Contains(":") ? "[" + Host + "]" : Host;
            bool usual = Port == (Scheme == "https" ? 443 : 80);
            return Scheme + "://" + host + (usual ? "" : ":" + Port.ToString(CultureInfo.InvariantCulture));
        }

        /// <summary>Compares scheme, host and port.</summary>
        public override bool Equals(object other) => other is Origin && other.ToString() == ToString();

        /// <summary>Returns equal numbers for equal origins.</summary>
        public override int GetHashCode() => ToString().GetHashCode();
    }

    // --- The wire ----------------------------------------------------------------------------------------------------

    /// <summary>One request, for whatever sends it: see <see cref="GamedOptions.Send"/>.</summary>
    public sealed partial class GamedRequest
    {
        /// <summary>GET, PUT, POST or DELETE.</summary>
        public string Method { get; internal set; }

        /// <summary>Absolute; of the server that the player entered.</summary>
        public string Url { get; internal set; }

        /// <summary>Names and values, ASCII; User-Agent, Content-Type and Range among them.</summary>
        public IDictionary<string, string> Headers { get; internal set; }

        /// <summary>Null: none.</summary>
        public byte[] Body { get; internal set; }

        /// <summary>How long one step on the network may take: to connect, to send a part, to wait for the
        /// answer.</summary>
        public double TimeoutSeconds { get; internal set; }

        /// <summary>Without headers and body: they hold secrets.</summary>
        public override string ToString() => Method + " " + Url;
    }

    /// <summary>One answer, of any status. Its body is read once, from anywhere; disposing breaks a read off.</summary>
    public sealed class GamedResponse : IDisposable
    {
        readonly Action close;

        /// <summary>`close` ends the connection, from any thread; null: there is nothing to end.</summary>
        public GamedResponse(int status, IEnumerable<KeyValuePair<string, string>> headers, Stream body,
            Action close = null)
        {
            Status = status;
            Headers = new Dictionary<string, string>(StringComparer.OrdinalIgnoreCase);
            foreach (KeyValuePair<string, string> header in headers)
                Headers[header.Key] = header.Value;
            Body = body;
            this.close = close;
        }

        /// <summary>The HTTP status.</summary>
        public int Status { get; private set; }

        /// <summary>The header fields; names are compared without regard to case.</summary>
        public IDictionary<string, string> Headers { get; private set; }

        /// <summary>The body, of as many bytes as Content-Length states.</summary>
        public Stream Body { get; private set; }

        /// <summary>Ends the connection; may be called more than once.</summary>
        public void Dispose()
        {
            if (close != null)
                Close(close);
            Close(Body.Dispose);
        }

        /// <summary>Closes a part; a timer may do that during a read, and nobody would catch its exception.</summary>
        static void Close(Action close)
        {
            try
            {
                close();
            }
            catch (Exception e)
            {
                bool interrupted = e is IOException || e is WebException || e is InvalidOperationException
                    || e is NotSupportedException;  // an ObjectDisposedException is an InvalidOperationException
                if (!interrupted)
                    throw;
            }
        }
    }

    /// <summary>The platform's own HTTP. It does not follow redirects, keep cookies or use proxies.</summary>
    public static class PlatformHttp
    {
        const int Chunk = 1 << 16;

        /// <summary>Sends a request. Throws UntrustedAddressException for an invalid certificate, IOException or a
        /// similar exception without a response, TimeoutException, OperationCanceledException.</summary>
        public static async Task<GamedResponse> SendAsync(GamedRequest request, CancellationToken cancel)
        {
            HttpWebRequest http = Prepared(request);
            using (CancellationTokenSource step = CancellationTokenSource.CreateLinkedTokenSource(cancel))
            using (step.Token.Register(http.Abort))
            {
                TimeSpan timeout = TimeSpan.FromSeconds(request.TimeoutSeconds);
                step.CancelAfter(timeout);
                try
                {
                    if (request.Body != null)
                        await WriteAsync(http, request.Body, step, timeout).ConfigureAwait(false);
                    return Of(http, await AnswerAsync(http, step.Token).ConfigureAwait(false));
                }
                catch (Exception e)
                {
                    http.Abort();
                    ThrowCause(e, request, step, cancel);
                    throw;
                }
            }
        }

        /// <summary>Throws the cause of an error of a request, unless it is the error itself.</summary>
        internal static void ThrowCause(Exception error, GamedRequest request, CancellationTokenSource step,
            CancellationToken cancel)
        {
            cancel.ThrowIfCancellationRequested();
            if (step.IsCancellationRequested)
                throw new TimeoutException("no answer in time", error);
            if (IsCertificate(error))
                throw new UntrustedAddressException("untrusted_certificate",
                    request.Url.Split('/')[2] + " cannot prove that it is the server it claims to be.", error);
        }

        static HttpWebRequest Prepared(GamedRequest request)
        {
            var http = (HttpWebRequest)WebRequest.Create(request.Url);
            http.Method = request.Method;
            http.AllowAutoRedirect = false;
            http.Proxy = null;
            http.KeepAlive = false;
            http.Timeout = http.ReadWriteTimeout = Timeout.Infinite;
            http.ServicePoint.Expect100Continue = false;
            AllowWaits(http.ServicePoint);
            http.AllowWriteStreamBuffering = false;
            foreach (KeyValuePair<string, string> header in request.Headers)
                if (header.Key == "User-Agent")
                    http.UserAgent = header.Value;
                else if (header.Key == "Content-Type")
                    http.ContentType = header.Value;
                else if (header.Key == "Range")
                    SetRange(http, Regex.Match(header.Value, @"\Abytes=([0-9]+)-([0-9]+)\z"));
                else
                    http.Headers[header.Key] = header.Value;
            if (request.Method != "GET" && request.Method != "HEAD")
                http.ContentLength = request.Body == null ? 0 : request.Body.Length;
            return http;
        }

        /// <summary>Raises the number of connections to one server: .NET Framework has two, which long waits would
        /// use.</summary>
        internal static void AllowWaits(ServicePoint server) =>
            server.ConnectionLimit = Math.Max(server.ConnectionLimit, 64);

        static void SetRange(HttpWebRequest http, Match range)
        {
            http.AddRange("bytes", long.Parse(range.Groups[1].Value, CultureInfo.InvariantCulture),
                long.Parse(range.Groups[2].Value, CultureInfo.InvariantCulture));
        }

        static async Task WriteAsync(HttpWebRequest http, byte[] body, CancellationTokenSource step, TimeSpan timeout)
        {
            Stream stream = await BeforeAsync(http.GetRequestStreamAsync(), step.Token).ConfigureAwait(false);
            try
            {
                for (int at = 0; at < body.Length; at += Chunk)
                {
                    step.CancelAfter(timeout);
                    await stream.WriteAsync(body, at, Math.Min(Chunk, body.Length - at)).ConfigureAwait(false);
                }
                stream.Dispose();
                step.CancelAfter(timeout);
            }
            catch (Exception e)
            {
                // a server that refuses an upload responds and closes before it has read all: read that response
                if (step.IsCancellationRequested || !(e is IOException || e is WebException))
                    throw;
            }
        }

        static async Task<HttpWebResponse> AnswerAsync(HttpWebRequest http, CancellationToken end)
        {
            try
            {
                return (HttpWebResponse)await BeforeAsync(http.GetResponseAsync(), end).ConfigureAwait(false);
            }
            catch (WebException e)
            {
                if (e.Response is HttpWebResponse)
                    return (HttpWebResponse)e.Response;
                throw;
            }
        }

        /// <summary>Waits for the result or for `end`: a platform may lose an Abort that it gets while it connects. A
        /// late result is discarded.</summary>
        static async Task<T> BeforeAsync<T>(Task<T> work, CancellationToken end) where T : IDisposable
        {
            var ended = new TaskCompletionSource<bool>();
            using (end.Register(() => ended.TrySetResult(true)))
                if (await Task.WhenAny(work, ended.Task).ConfigureAwait(false) == work)
                    return await work.ConfigureAwait(false);
            work.ContinueWith(late =>
            {
                if (late.Status == TaskStatus.RanToCompletion)
                    late.Result.Dispose();
                else
                    late.Exception?.Handle(e => true);
            }, TaskScheduler.Default).Forget();
            throw new OperationCanceledException(end);
        }

        static GamedResponse Of(HttpWebRequest http, HttpWebResponse answer)
        {
            WebHeaderCollection headers = answer.Headers;
            IEnumerable<KeyValuePair<string, string>> pairs =
                headers.AllKeys.Select(name => new KeyValuePair<string, string>(name, headers[name]));
            return new GamedResponse((int)answer.StatusCode, pairs.ToArray(), answer.GetResponseStream(), http.Abort);
        }

        static bool IsCertificate(Exception error)
        {
            var web = error as WebException;
            if (web != null && web.Status == WebExceptionStatus.TrustFailure)
                return true;
            for (; error != null; error = error.InnerException)
                if (error is System.Security.Authentication.AuthenticationException)
                    return true;
            return false;
        }
    }

    /// <summary>A complete response.</summary>
    sealed class Answer
    {
        internal int Status;
        internal IDictionary<string, string> Headers;
        internal byte[] Body;

        internal string Header(string name) => Headers.Find(name) ?? "";

        internal string MediaType => Header("Content-Type").Split(';')[0].Trim().ToLowerInvariant();

        /// <summary>Returns whether the body is what <see cref="Call.ContinueAt"/> has requested.</summary>
        internal bool ContinuesAt(long start, long size) => Status == 206 && Header("Content-Range")
            == string.Format(CultureInfo.InvariantCulture, "bytes {0}-{1}/{2}", start, size - 1, size);

        internal Dictionary<string, object> Json()
        {
            object value = Errors.Parsed(() => Gamed.Json.Parse(Body), "The server's answer is not JSON.", Status);
            if (!(value is Dictionary<string, object>))
                throw new NotGamedException("The server's answer is not a JSON object.", Status);
            return (Dictionary<string, object>)value;
        }
    }

    /// <summary>A request, with its limits and retries.</summary>
    sealed class Call
    {
        internal object Json;
        internal byte[] Body;
        internal Dictionary<string, string> Headers = new Dictionary<string, string>();
        internal string Bearer;

        /// <summary>Validates the response as part of a try: a temporary failure is retried.</summary>
        internal Action<Answer> Check;

        /// <summary>The largest response, in bytes.</summary>
        internal long Limit = Wire.MaxJsonBytes;

        /// <summary>Seconds to add to the usual timeout.</summary>
        internal double Wait;

        /// <summary>Timeout of each step in seconds; 0: the usual one.</summary>
        internal double Timeout;

        internal int Tries;

        /// <summary>Requests only the bytes from `start`, if the server still has this version of the file.</summary>
        internal void ContinueAt(long start, long size, string etag)
        {
            if (start <= 0 || start >= size)
                return;
            Headers["Range"] = string.Format(CultureInfo.InvariantCulture, "bytes={0}-{1}", start, size - 1);
            Headers["If-Range"] = etag;
        }
    }

    /// <summary>Requests to one server.</summary>
    sealed class Wire
    {
        internal const int MaxJsonBytes = 4 << 20;
        internal const int MaxSaveBytes = 256 << 20;
        internal const double LongestPauseSeconds = 30;

        static readonly Random Chance = new Random(Guid.NewGuid().GetHashCode());

        internal Origin Origin;
        internal string Agent;
        internal GamedOptions Options;
        internal int Tries;

        internal Wire With(int tries) => new Wire { Origin = Origin, Agent = Agent, Options = Options, Tries = tries };

        /// <summary> Returns a successful response or throws a GamedError. Passing failures are retried, so the server
        /// may receive the request twice.</summary>
        internal async Task<Answer> CallAsync(string method, string path, Call how, CancellationToken cancel)
        {
            GamedRequest request = RequestOf(method, path, how);
            bool lost = false;
            int tries = how.Tries > 0 ? how.Tries : Tries;
            for (int attempt = 0; ; attempt++)
            {
                try
                {
                    Answer answer = await OnceAsync(request, how.Limit, cancel).ConfigureAwait(false);
                    how.Check?.Invoke(answer);
                    return answer;
                }
                catch (GamedError error)
                {
                    error.AnswerLostBefore = lost;
                    lost = lost || error is Unreachable;
                    await PauseAsync(error, attempt, tries, LongestPauseSeconds, cancel).ConfigureAwait(false);
                }
            }
        }

        /// <summary>Waits before the next try. Throws the error instead if it is not temporary, after the last try, and
        /// if the pause would be longer than `longest` seconds.</summary>
        internal async Task PauseAsync(GamedError error, int attempt, int tries, double longest,
            CancellationToken cancel)
        {
            double pause = PauseAfter(error, attempt);
            if (!error.Passing || attempt + 1 >= tries || pause > longest)
                ExceptionDispatchInfo.Capture(error).Throw();
            await Options.Sleep(TimeSpan.FromSeconds(pause), cancel).ConfigureAwait(false);
        }

        GamedRequest RequestOf(string method, string path, Call how)
        {
            var fields = new Dictionary<string, string>(how.Headers) { { "User-Agent", Agent } };
            byte[] body = how.Body;
            if (how.Json != null)
            {
                body = Encoding.ASCII.GetBytes(Json.Write(how.Json));
                fields["Content-Type"] = "application/json";
            }
            if (how.Bearer != null)
                fields["Authorization"] = "Bearer " + how.Bearer;
            double timeout = (how.Timeout > 0 ? how.Timeout : Options.TimeoutSeconds) + how.Wait;
            return new GamedRequest
            {
                Method = method, Url = Origin + path, Headers = fields, Body = body, TimeoutSeconds = timeout,
            };
        }

        async Task<Answer> OnceAsync(GamedRequest request, long limit, CancellationToken cancel)
        {
            var body = new MemoryStream();
            Func<Answer, Func<byte[], int, Task>> sink = head => (part, size) =>
            {
                body.Write(part, 0, size);
                if (body.Length > limit)
                    throw new NotGamedException("The server's answer is larger than any expected here.");
                return Done;
            };
            Answer answer = await StreamAsync(request, sink, cancel).ConfigureAwait(false);
            answer.Body = body.ToArray();
            if (answer.Status < 200 || answer.Status >= 300)
                throw Errors.Of(answer);
            return answer;
        }

        internal static readonly Task Done = Task.FromResult(true);

        /// <summary>Tries once to download a file, or the rest of it: see StreamAsync. Throws the error of any other
        /// status than 200 and 206, from at most `maxErrorBytes` of its body.</summary>
        internal async Task<Answer> DownloadAsync(string path, Call how, int maxErrorBytes,
            Func<Answer, Func<byte[], int, Task>> sink, CancellationToken cancel)
        {
            var refused = new MemoryStream();
            Func<byte[], int, Task> refuse = (data, size) =>
            {
                refused.Write(data, 0, (int)Math.Min(size, maxErrorBytes - refused.Length));
                return Done;
            };
            Answer answer = await StreamAsync(RequestOf("GET", path, how),
                head => IsDownload(head) ? sink(head) : refuse, cancel).ConfigureAwait(false);
            answer.Body = refused.ToArray();
            if (!IsDownload(answer))
                throw Errors.Of(answer);
            return answer;
        }

        static bool IsDownload(Answer head) => head.Status == 200 || head.Status == 206;

        /// <summary>Tries once: passes the head to `sink`, and the parts of the body to the function that it returns.
        /// Throws UnreachableException after the last received part of an interrupted body.</summary>
        async Task<Answer> StreamAsync(GamedRequest request, Func<Answer, Func<byte[], int, Task>> sink,
            CancellationToken cancel)
        {
            Func<Task<GamedResponse>> send = () => Options.Send(request, cancel);
            using (GamedResponse response = await OnNetworkAsync(send, cancel).ConfigureAwait(false))
            {
                var head = new Answer { Status = response.Status, Headers = response.Headers };
                await ReadAsync(response, head, sink(head), request, cancel).ConfigureAwait(false);
                return head;
            }
        }

        async Task ReadAsync(GamedResponse response, Answer head, Func<byte[], int, Task> part, GamedRequest request,
            CancellationToken cancel)
        {
            var buffer = new byte[1 << 16];
            long size = 0;
            TimeSpan timeout = TimeSpan.FromSeconds(request.TimeoutSeconds);
            using (CancellationTokenSource step = CancellationTokenSource.CreateLinkedTokenSource(cancel))
            using (step.Token.Register(response.Dispose))
            {
                Func<Task<int>> next = () => ReadPartAsync(response.Body, buffer, step);
                for (; ; )
                {
                    step.CancelAfter(timeout);
                    int read = await OnNetworkAsync(next, cancel).ConfigureAwait(false);
                    if (read == 0)
                        break;
                    step.CancelAfter(Timeout.Infinite);
                    size += read;
                    await part(buffer, read).ConfigureAwait(false);
                }
            }
            if (!IsWhole(head, size, request.Method))
                throw new UnreachableException("unreachable", "The answer of the server broke off.");
        }

        /// <summary>Awaits a step on the network; throws UnreachableException if the network fails.</summary>
        async Task<T> OnNetworkAsync<T>(Func<Task<T>> step, CancellationToken cancel)
        {
            try
            {
                return await step().ConfigureAwait(false);
            }
            catch (Exception e)
            {
                cancel.ThrowIfCancellationRequested();
                if (!IsNetwork(e))
                    throw;
                string detail = Origin + " does not answer. Check the address and the network.";
                throw new UnreachableException("unreachable", detail, 0, null, e);
            }
        }

        static async Task<int> ReadPartAsync(Stream body, byte[] buffer, CancellationTokenSource step)
        {
            try
            {
                int read = await body.ReadAsync(buffer, 0, buffer.Length, step.Token).ConfigureAwait(false);
                step.Token.ThrowIfCancellationRequested();
                return read;
            }
            catch (Exception e)
            {
                if (step.IsCancellationRequested)
                    throw new TimeoutException("no more in time", e);
                throw;
            }
        }

        /// <summary>Returns whether the body is complete. gamed sends every length, so a head without one was
        /// interrupted.</summary>
        static bool IsWhole(Answer head, long size, string method)
        {
            if (head.Status == 204 || head.Status == 304 || method == "HEAD")
                return true;
            long length;
            string named = head.Header("Content-Length");
            if (long.TryParse(named, NumberStyles.None, CultureInfo.InvariantCulture, out length))
                return size == length;
            return head.Header("Transfer-Encoding") != "";
        }

        static bool IsNetwork(Exception e) =>
            e is IOException || e is WebException || e is SocketException || e is TimeoutException
                || e is ObjectDisposedException || e is OperationCanceledException || e is InvalidOperationException
                || e is NotSupportedException || e is FormatException;

        /// <summary>Returns the seconds before the next try: the server's, else doubling; random, so that not all
        /// clients retry at once.</summary>
        internal static double PauseAfter(GamedError error, int attempt)
        {
            if (error.RetryAfter != null)
                return error.RetryAfter.Value + Uniform(0, Math.Min(error.RetryAfter.Value, 3) + 0.1);
            return Uniform(0.1, Math.Min(8, 0.5 * Math.Pow(2, attempt)));
        }

        static double Uniform(double from, double to)
        {
            lock (Chance)
                return from + Chance.NextDouble() * (to - from);
        }
    }

    // --- Kept between runs -------------------------------------------------------------------------------------------

    /// <summary>One sign-in of one player at one server.</summary>
    public sealed class Credential
    {
        /// <summary>The client refreshes an access token this long before it expires, at most.</summary>
        internal const double EarlySeconds = 30;

        /// <summary>The client refreshes a short-lived access token when this share of its lifetime is left.</summary>
        const double EarlyShare = 0.1;

        internal static readonly Regex Tokens = new Regex(@"\A[A-Za-z0-9_-]{1,512}\z");

        Credential()
        {
        }

        /// <summary>The origin of the server.</summary>
        public string Origin { get; private set; }

        /// <summary>`ply_...`; use it as the key of the game's own data.</summary>
        public string PlayerId { get; private set; }

        /// <summary>`ses_...`.</summary>
        public string SessionId { get; private set; }

        /// <summary>A name of the policy, or `local`.</summary>
        public string Provider { get; private set; }

        /// <summary>Secret.</summary>
        public string RefreshCredential { get; private set; }

        /// <summary>Secret.</summary>
        public string AccessToken { get; private set; }

        /// <summary>Seconds since 1970 by this machine's clock.</summary>
        public double AccessExpires { get; private set; }

        /// <summary>Seconds; null in credentials that older versions of this client stored.</summary>
        internal double? AccessLifetime { get; private set; }

        /// <summary>The name that games show, as the server sent it last; null as before, and for a player without
        /// one.</summary>
        internal string PlayerName { get; private set; }

        internal Credential Named(string name) => With(named => named.PlayerName = name);

        Credential With(Action<Credential> change)
        {
            var copy = (Credential)MemberwiseClone();
            change(copy);
            return copy;
        }

        /// <summary>Describes the credential without its secrets.</summary>
        public override string ToString() => PlayerId + " at " + Origin;

        /// <summary>Returns whether the access token can be used at `now`, seconds since 1970, without a
        /// refresh.</summary>
        internal bool Fresh(double now)
        {
            double share = AccessLifetime * EarlyShare ?? EarlySeconds;
            return now < AccessExpires - Math.Min(EarlySeconds, share);
        }

        /// <summary>Reads the answer of a collect (docs/protocol.md: Collect); `now` in seconds since 1970.</summary>
        internal static Credential Of(Origin origin, IDictionary<string, object> complete, double now)
        {
            var player = Members.Of<Dictionary<string, object>>(complete, "player");
            return new Credential
            {
                Origin = origin.ToString(),
                PlayerId = Members.Of<string>(player, "id"),
                PlayerName = Members.Maybe<string>(player, "name"),
                SessionId = Members.Of<string>(complete, "session_id"),
                Provider = Members.Of<string>(complete, "provider"),
            }.Renewed(complete, now);
        }

        /// <summary>Returns a copy with the pair of a response of collect or refresh
        /// (docs/protocol.md: Sessions).</summary>
        internal Credential Renewed(IDictionary<string, object> pair, double now)
        {
            long lifetime = Members.Of<long>(pair, "expires_in");
            return With(renewed =>
            {
                renewed.RefreshCredential = Token(Members.Of<string>(pair, "refresh_credential"));
                renewed.AccessToken = Token(Members.Of<string>(pair, "access_token"));
                renewed.AccessExpires = now + lifetime;
                renewed.AccessLifetime = lifetime;
            });
        }

        /// <summary>Returns a valid token, Base64url with a prefix; throws NotGamedException for others, which could
        /// break the header.</summary>
        static string Token(string text)
        {
            if (!Tokens.IsMatch(text))
                throw new NotGamedException("The server's answer has a malformed credential.");
            return text;
        }

        internal string ToJson() =>
            Json.Write(new Dictionary<string, object>
            {
                { "origin", Origin }, { "player_id", PlayerId }, { "session_id", SessionId }, { "provider", Provider },
                { "refresh_credential", RefreshCredential }, { "access_token", AccessToken },
                { "access_expires", AccessExpires }, { "access_lifetime", AccessLifetime },
                { "player_name", PlayerName },
            });

        /// <summary>Parses the stored form; returns null if it is not a credential of this origin.</summary>
        internal static Credential FromJson(string text, Origin origin)
        {
            try
            {
                var value = Json.Parse(text) as Dictionary<string, object>;
                object lifetime = Members.Maybe<object>(value, "access_lifetime");
                var found = new Credential
                {
                    Origin = Members.Of<string>(value, "origin"),
                    PlayerId = Members.Of<string>(value, "player_id"),
                    PlayerName = Members.Maybe<string>(value, "player_name"),
                    SessionId = Members.Of<string>(value, "session_id"),
                    Provider = Members.Of<string>(value, "provider"),
                    RefreshCredential = Token(Members.Of<string>(value, "refresh_credential")),
                    AccessToken = Token(Members.Of<string>(value, "access_token")),
                    AccessExpires = Convert.ToDouble(Members.Of<object>(value, "access_expires"),
                        CultureInfo.InvariantCulture),
                    AccessLifetime = lifetime == null ? (double?)null
                        : Convert.ToDouble(lifetime, CultureInfo.InvariantCulture),
                };
                return found.Origin == origin.ToString() ? found : null;
            }
            catch (Exception e)
            {
                if (e is FormatException || e is NotGamedException || e is InvalidCastException)
                    return null;
                throw;
            }
        }
    }

    /// <summary>
    /// Storage of the credential of one server: a text that only this user may read. A game may replace it, see
    /// <see cref="GamedOptions.Store"/>. The client never calls it from the game's thread, so it may block.
    /// </summary>
    public interface ICredentialStore
    {
        /// <summary>Acquires a lock with one holder at a time among all processes. Dispose releases it, or the system
        /// when the process dies. Write and Delete are called while it is held.</summary>
        Task<IDisposable> LockAsync(CancellationToken cancel);

        /// <summary>Reads the text that was written last, or null.</summary>
        string Read();

        /// <summary>Replaces the text, on disk when it returns; a crash leaves the old or the new one. The loss of a
        /// pair that was used would end the session.</summary>
        void Write(string text);

        /// <summary>Deletes the text, if there is one.</summary>
        void Delete();
    }

    /// <summary>Another store, whose exceptions of the disk are LocalDamagedException.</summary>
    sealed class GuardedStore : ICredentialStore
    {
        readonly ICredentialStore store;

        internal GuardedStore(ICredentialStore store)
        {
            this.store = store;
        }

        public Task<IDisposable> LockAsync(CancellationToken cancel) =>
            Errors.OnDiskAsync(Errors.OnDisk(() => store.LockAsync(cancel)));

        public string Read() => Errors.OnDisk(() => store.Read());

        public void Write(string text) => Errors.OnDisk(() => store.Write(text));

        public void Delete() => Errors.OnDisk(() => store.Delete());
    }

    /// <summary>A file with mode 0600 in a folder with mode 0700; on Windows encrypted by DPAPI for this
    /// user.</summary>
    public class CredentialFile : ICredentialStore
    {
        readonly string path;
        readonly SemaphoreSlim tasks = new SemaphoreSlim(1);

        /// <summary>`path` is without suffix: the store uses it with `.json` and with `.lock`.</summary>
        internal CredentialFile(string path)
        {
            this.path = path;
        }

        /// <summary>Returns the store of this platform: Keychain on macOS, else a file.</summary>
        internal static ICredentialStore Of(string folder, string place, string app)
        {
            var file = new CredentialFile(Path.Combine(folder, place));
            return Disk.IsMac ? new Keychain(file, app, place) : (ICredentialStore)file;
        }

        /// <summary>Throws IOException.</summary>
        public async Task<IDisposable> LockAsync(CancellationToken cancel)
        {
            Disk.PrivateFolder(Path.GetDirectoryName(path));
            await tasks.WaitAsync(cancel).ConfigureAwait(false);
            try
            {
                IDisposable held;
                while ((held = Disk.TryLock(path + ".lock")) == null)
                    await Task.Delay(50, cancel).ConfigureAwait(false);
                return new Once(() =>
                {
                    held.Dispose();
                    tasks.Release();
                });
            }
            catch
            {
                tasks.Release();
                throw;
            }
        }

        /// <summary>Throws IOException.</summary>
        public virtual string Read()
        {
            byte[] data = Disk.Read(path + ".json");
            if (data == null)
                return null;
            try
            {
                return Encoding.UTF8.GetString(Disk.IsWindows ? Dpapi.Open(data) : data);
            }
            catch (Win32Exception)
            {
                return null;  // another user's, or not encrypted: not a credential of this client
            }
        }

        /// <summary>Throws IOException.</summary>
        public virtual void Write(string text)
        {
            byte[] data = Encoding.UTF8.GetBytes(text);
            Disk.WriteWhole(path + ".json", Disk.IsWindows ? Dpapi.Seal(data) : data);
        }

        /// <summary>Throws IOException.</summary>
        public virtual void Delete() => Disk.Delete(path + ".json");
    }

    /// <summary>An action that Dispose runs once.</summary>
    sealed class Once : IDisposable
    {
        Action how;

        internal Once(Action how)
        {
            this.how = how;
        }

        public void Dispose()
        {
            Action first = Interlocked.Exchange(ref how, null);
            first?.Invoke();
        }
    }

    /// <summary>Encryption on Windows for the user who is logged on (CryptProtectData). Throws
    /// Win32Exception.</summary>
    static class Dpapi
    {
        const int NoUi = 1;

        [StructLayout(LayoutKind.Sequential)]
        struct Blob
        {
            internal int Size;
            internal IntPtr Data;
        }

        [DllImport("crypt32.dll", SetLastError = true, CharSet = CharSet.Unicode)]
        [return: MarshalAs(UnmanagedType.Bool)]
        static extern bool CryptProtectData(ref Blob data, string description, IntPtr entropy, IntPtr reserved,
            IntPtr prompt, int flags, out Blob found);

        [DllImport("crypt32.dll", SetLastError = true, CharSet = CharSet.Unicode)]
        [return: MarshalAs(UnmanagedType.Bool)]
        static extern bool CryptUnprotectData(ref Blob data, IntPtr description, IntPtr entropy, IntPtr reserved,
            IntPtr prompt, int flags, out Blob found);

        [DllImport("kernel32.dll")]
        static extern IntPtr LocalFree(IntPtr memory);

        internal static byte[] Seal(byte[] data) => With(data, true);

        internal static byte[] Open(byte[] data) => With(data, false);

        static byte[] With(byte[] data, bool seal)
        {
            GCHandle pinned = GCHandle.Alloc(data, GCHandleType.Pinned);
            try
            {
                var given = new Blob { Size = data.Length, Data = pinned.AddrOfPinnedObject() };
                Blob found;
                IntPtr none = IntPtr.Zero;
                bool done = seal ? CryptProtectData(ref given, "gamed", none, none, none, NoUi, out found)
                    : CryptUnprotectData(ref given, none, none, none, none, NoUi, out found);
                if (!done)
                    throw new Win32Exception(Marshal.GetLastWin32Error());
                var result = new byte[found.Size];
                Marshal.Copy(found.Data, result, 0, found.Size);
                LocalFree(found.Data);
                return result;
            }
            finally
            {
                pinned.Free();
            }
        }
    }

    /// <summary>macOS: a generic password of the login keychain. The lock is a file.</summary>
    sealed class Keychain : ICredentialStore
    {
        const string Library = "/System/Library/Frameworks/Security.framework/Security";
        const string Core = "/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation";
        const int NotThere = -25300;

        readonly ICredentialStore file;
        readonly byte[] service;
        readonly byte[] account;

        [DllImport(Library)]
        static extern int SecKeychainFindGenericPassword(IntPtr keychain, uint serviceSize, byte[] service,
            uint accountSize, byte[] account, out uint size, out IntPtr data, out IntPtr item);

        [DllImport(Library)]
        static extern int SecKeychainAddGenericPassword(IntPtr keychain, uint serviceSize, byte[] service,
            uint accountSize, byte[] account, uint size, byte[] data, IntPtr item);

        [DllImport(Library)]
        static extern int SecKeychainItemModifyAttributesAndData(IntPtr item, IntPtr attributes, uint size,
            byte[] data);

        [DllImport(Library)]
        static extern int SecKeychainItemDelete(IntPtr item);

        [DllImport(Library)]
        static extern int SecKeychainItemFreeContent(IntPtr attributes, IntPtr data);

        [DllImport(Core)]
        static extern void CFRelease(IntPtr item);

        internal Keychain(ICredentialStore file, string app, string place)
        {
            this.file = file;
            service = Encoding.UTF8.GetBytes("gamed " + app);
            account = Encoding.UTF8.GetBytes(place);
        }

        public Task<IDisposable> LockAsync(CancellationToken cancel) => file.LockAsync(cancel);

        public string Read()
        {
            string text = null;
            WithItem((item, data) => text = Encoding.UTF8.GetString(data));
            return text;
        }

        public void Write(string text)
        {
            byte[] fresh = Encoding.UTF8.GetBytes(text);
            if (!WithItem((item, data) => Check(
                SecKeychainItemModifyAttributesAndData(item, IntPtr.Zero, (uint)fresh.Length, fresh))))
                Check(SecKeychainAddGenericPassword(IntPtr.Zero, (uint)service.Length, service, (uint)account.Length,
                    account, (uint)fresh.Length, fresh, IntPtr.Zero));
        }

        public void Delete() => WithItem((item, data) => Check(SecKeychainItemDelete(item)));

        /// <summary>Passes the item to `use`; returns false if it does not exist.</summary>
        bool WithItem(Action<IntPtr, byte[]> use)
        {
            uint size;
            IntPtr data, item;
            int status = SecKeychainFindGenericPassword(IntPtr.Zero, (uint)service.Length, service,
                (uint)account.Length, account, out size, out data, out item);
            if (status == NotThere)
                return false;
            Check(status);
            try
            {
                var found = new byte[size];
                Marshal.Copy(data, found, 0, (int)size);
                use(item, found);
                return true;
            }
            finally
            {
                SecKeychainItemFreeContent(IntPtr.Zero, data);
                CFRelease(item);
            }
        }

        static void Check(int status)
        {
            if (status != 0)
                throw new IOException("Keychain: status " + status.ToString(CultureInfo.InvariantCulture));
        }
    }

    /// <summary>Files that a crash leaves complete and that only this user can read. Throws IOException.</summary>
    static class Disk
    {
        const int Exclusive = 2, NotWaiting = 4, ReplaceExisting = 1, WriteThrough = 8;

        internal static readonly bool IsWindows = Path.DirectorySeparatorChar == '\\';

        /// <summary>False on iOS, which does not have this program.</summary>
        internal static readonly bool IsMac = !IsWindows && File.Exists("/usr/bin/security")
            && Directory.Exists("/System/Library/Frameworks/Security.framework");

        /// <summary>True on Linux, macOS and similar systems. Platforms without libc give each app a private
        /// folder.</summary>
        internal static bool HasLibc = FindsLibc();

        [DllImport("libc")]
        static extern int getpid();

        [DllImport("libc", SetLastError = true)]
        static extern int mkdir(byte[] path, uint mode);

        [DllImport("libc", SetLastError = true)]
        static extern int mkstemp(byte[] template);

        [DllImport("libc", SetLastError = true)]
        static extern int open(byte[] path, int flags);

        [DllImport("libc", SetLastError = true)]
        static extern int close(int handle);

        [DllImport("libc", SetLastError = true)]
        static extern int chmod(byte[] path, uint mode);

        [DllImport("libc", SetLastError = true)]
        static extern int fsync(int handle);

        [DllImport("libc", SetLastError = true)]
        static extern int rename(byte[] from, byte[] to);

        [DllImport("libc", SetLastError = true)]
        static extern int flock(int handle, int how);

        [DllImport("kernel32.dll", SetLastError = true, CharSet = CharSet.Unicode)]
        [return: MarshalAs(UnmanagedType.Bool)]
        static extern bool MoveFileExW(string from, string to, int flags);

        static bool FindsLibc()
        {
            try
            {
                return !IsWindows && getpid() > 0;
            }
            catch (Exception e)
            {
                if (e is DllNotFoundException || e is EntryPointNotFoundException)
                    return false;
                throw;
            }
        }

        /// <summary>Creates a folder that only this user can read, on disk when this returns.</summary>
        internal static void PrivateFolder(string folder)
        {
            if (Directory.Exists(folder))
                return;
            string parent = Path.GetDirectoryName(folder);
            if (!string.IsNullOrEmpty(parent))
                PrivateFolder(parent);
            if (!HasLibc)
            {
                Directory.CreateDirectory(folder);
                return;
            }
            if (mkdir(Bytes(folder), 448) != 0 && !Directory.Exists(folder))  // 0700
                throw Failed(folder);
            SyncFolder(parent);
        }

        /// <summary>Returns null if the file does not exist.</summary>
        internal static byte[] Read(string path)
        {
            try
            {
                using (var file = new FileStream(path, FileMode.Open, FileAccess.Read,
                    FileShare.ReadWrite | FileShare.Delete))
                {
                    var data = new MemoryStream();
                    file.CopyTo(data);
                    return data.ToArray();
                }
            }
            catch (FileNotFoundException)
            {
                return null;
            }
            catch (DirectoryNotFoundException)
            {
                return null;
            }
        }

        /// <summary>Reads UTF-8; returns null if the file does not exist.</summary>
        internal static string ReadText(string path)
        {
            byte[] text = Read(path);
            return text == null ? null : Encoding.UTF8.GetString(text);
        }

        /// <summary>Runs work that can also be done later: a failure of the disk is not an error.</summary>
        internal static void Try(Action work)
        {
            try
            {
                work();
            }
            catch (Exception error)
            {
                if (Errors.OfDisk(error) == null)
                    throw;
            }
        }

        /// <summary>Replaces the file, on disk when it returns; a crash leaves the old or the new bytes.</summary>
        internal static void WriteWhole(string path, byte[] data)
        {
            string temporary = Temporary(path);
            try
            {
                using (var file = new FileStream(temporary, FileMode.Open, FileAccess.Write, FileShare.None))
                {
                    file.Write(data, 0, data.Length);
                    Sync(file);
                }
                Move(temporary, path);
            }
            catch
            {
                Delete(temporary);
                throw;
            }
        }

        /// <summary>Creates an empty file beside `path` that only this user can ever read.</summary>
        internal static string Temporary(string path)
        {
            string folder = Path.GetDirectoryName(path);
            if (!HasLibc)
            {
                string name = Path.Combine(folder, "." + Guid.NewGuid().ToString("N") + ".new");
                new FileStream(name, FileMode.CreateNew).Dispose();
                return name;
            }
            byte[] template = Bytes(Path.Combine(folder, ".new-XXXXXX"));
            int handle = mkstemp(template);
            if (handle < 0)
                throw Failed(folder);
            close(handle);
            return Encoding.UTF8.GetString(template, 0, template.Length - 1);
        }

        internal static void Sync(FileStream file)
        {
            file.Flush(true);
            if (HasLibc && fsync(file.SafeFileHandle.DangerousGetHandle().ToInt32()) != 0)
                throw Failed(file.Name);
        }

        /// <summary>Replaces `to` in one step; on disk when it returns.</summary>
        internal static void Move(string from, string to)
        {
            if (IsWindows)
            {
                for (int attempt = 0; !MoveFileExW(from, to, ReplaceExisting | WriteThrough); attempt++)
                {
                    if (attempt == 20)
                        throw Failed(to);
                    Thread.Sleep(25);  // another program is reading the file
                }
                return;
            }
            if (!HasLibc && File.Exists(to))
                File.Replace(from, to, null);
            else if (!HasLibc)
                File.Move(from, to);
            else if (rename(Bytes(from), Bytes(to)) != 0)
                throw Failed(to);
            SyncFolder(Path.GetDirectoryName(to));
        }

        internal static void SyncFolder(string folder)
        {
            if (!HasLibc || string.IsNullOrEmpty(folder))
                return;
            int handle = open(Bytes(folder), 0);
            if (handle < 0)
                return;  // may be entered, but not read
            fsync(handle);
            close(handle);
        }

        /// <summary>Deletes the file if it exists.</summary>
        internal static void Delete(string path)
        {
            if (!File.Exists(path))
                return;
            File.Delete(path);
            SyncFolder(Path.GetDirectoryName(path));
        }

        /// <summary>Acquires a lock until it is disposed; returns null if another process holds it. On a file system
        /// without locks two processes may refresh at once: the server accepts that for 30 s
        /// (docs/protocol.md: Sessions).</summary>
        internal static IDisposable TryLock(string path)
        {
            try
            {
                FileShare share = HasLibc ? FileShare.ReadWrite | FileShare.Delete : FileShare.None;
                var file = new FileStream(path, FileMode.OpenOrCreate, FileAccess.ReadWrite, share);
                if (!HasLibc)
                    return file;
                chmod(Bytes(path), 384);  // 0600
                int handle = file.SafeFileHandle.DangerousGetHandle().ToInt32();
                if (flock(handle, Exclusive | NotWaiting) == 0)
                    return file;
                if (!IsTaken(Marshal.GetLastWin32Error()))
                    return file;  // the file system does not support locks
                file.Dispose();
                return null;
            }
            catch (IOException e)
            {
                int code = Marshal.GetHRForException(e) & 0xffff;  // 32: ERROR_SHARING_VIOLATION
                if (code == 32 || (HasLibc && IsTaken(code)))  // newer .NET asks for a shared lock when it opens a file
                    return null;
                throw;
            }
        }

        /// <summary>Returns whether this is EWOULDBLOCK of Linux or of macOS.</summary>
        static bool IsTaken(int error) => error == 11 || error == 35;

        internal static byte[] Bytes(string path) => Encoding.UTF8.GetBytes(path + "\0");

        static IOException Failed(string path)
        {
            int error = Marshal.GetLastWin32Error();
            return new IOException(path + ": error " + error.ToString(CultureInfo.InvariantCulture));
        }

        /// <summary>Returns this platform's folder for the state of programs, which people do not edit.</summary>
        internal static string StateFolder(string app)
        {
            if (!Regex.IsMatch(app, @"\A[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}\z"))
                throw new ArgumentException("app: letters, digits, space, '.', '_', '-'");
            string home = Environment.GetEnvironmentVariable("HOME");
            string state = Environment.GetEnvironmentVariable("XDG_STATE_HOME");
            if (IsWindows)
                return Path.Combine(Environment.GetFolderPath(Environment.SpecialFolder.LocalApplicationData), app);
            if (string.IsNullOrEmpty(home))
                throw new ArgumentException("This platform has no home folder: name a Folder.");
            if (IsMac)
                return Path.Combine(home, "Library", "Application Support", app);
            return Path.Combine(string.IsNullOrEmpty(state) ? Path.Combine(home, ".local", "state") : state, app);
        }
    }

    // --- The sign-in -------------------------------------------------------------------------------------------------

    /// <summary>
    /// The interface between a sign-in and the person in front of the screen: <see cref="ConsolePerson"/>, the
    /// GamedDialog of the Unity package, or a game's own. Its methods are called on threads of the pool: an engine may
    /// require its main thread for its objects.
    /// </summary>
    public interface IPerson
    {
        /// <summary>Shows one button with the Label for each; returns the Name of the chosen one, or null to cancel the
        /// sign-in. Not called for a single one.</summary>
        Task<string> ChooseProviderAsync(IList<LoginProvider> providers, CancellationToken cancel);

        /// <summary>Shows a Cancel button while the sign-in continues in the browser, and `url` if the browser could
        /// not be opened. `qrUrl` is the address of a QR code of the link, for the player's phone, or null.</summary>
        void BrowserOpened(string url, bool opened, string qrUrl);

        /// <summary>Asks for the code that the browser shows; returns null to stop asking. `showCode` opens the page
        /// that shows it ("Show me a code"); null if the page shows it already. `attemptsLeft` is a number after a
        /// wrong code. `cancel`: the code is not needed any more, because the browser has returned or the sign-in has
        /// ended.</summary>
        Task<string> FinishCodeAsync(Action showCode, int? attemptsLeft, CancellationToken cancel);

        /// <summary>Shows the Detail: the reason why <see cref="GamedClient.EnsureSignedInAsync"/> does not have a
        /// session, or could not ask the server.</summary>
        void Problem(GamedError error);
    }

    /// <summary>One way to sign in at a server: a button.</summary>
    public sealed class LoginProvider
    {
        internal LoginProvider(string name, string label)
        {
            Name = name;
            Label = label;
        }

        /// <summary>The name for the program: `discord`.</summary>
        public string Name { get; private set; }

        /// <summary>The text of the button: `Discord`.</summary>
        public string Label { get; private set; }

        /// <summary>The label.</summary>
        public override string ToString() => Label;
    }

    /// <summary>A ready person for a game in a console: prints to stderr, reads lines of stdin.</summary>
    public class ConsolePerson : IPerson
    {
        static readonly object Gate = new object();

        /// <summary>The pending read of a line: after a cancelled question the next one gets the line.</summary>
        static Task<string> reading;

        /// <summary>Runs a game until it ends; returns the exit code. Prints the text for the player of a GamedError,
        /// or of a failure of this device's disk.</summary>
        public static int Run(Func<ConsolePerson, Task> game)
        {
            var person = new ConsolePerson();
            try
            {
                game(person).GetAwaiter().GetResult();
                return 0;
            }
            catch (Exception error)
            {
                GamedError problem = error as GamedError ?? Errors.OfDisk(error);
                if (problem == null)
                    throw;
                person.Problem(problem);
                return 1;
            }
        }

        /// <summary>The language of the texts; the system's by default.</summary>
        public string Locale { get; set; }

        /// <summary>Creates a person who reads the system's language.</summary>
        public ConsolePerson()
        {
            Locale = CultureInfo.CurrentUICulture.Name;
        }

        /// <summary>Reads the next line of stdin; returns null at its end.</summary>
        public static async Task<string> LineAsync(CancellationToken cancel = default(CancellationToken))
        {
            Task<string> line;
            lock (Gate)
                line = reading = reading ?? Task.Run(() => Console.ReadLine());
            var cancelled = new TaskCompletionSource<bool>();
            using (cancel.Register(() => cancelled.TrySetResult(true)))
                await Task.WhenAny(line, cancelled.Task).ConfigureAwait(false);
            if (!line.IsCompleted)
                throw new OperationCanceledException(cancel);
            lock (Gate)
                reading = reading == line ? null : reading;
            return await line.ConfigureAwait(false);
        }

        /// <summary>Asks for a number.</summary>
        public virtual async Task<string> ChooseProviderAsync(IList<LoginProvider> providers, CancellationToken cancel)
        {
            for (int number = 0; number < providers.Count; number++)
                Print("  " + (number + 1).ToString(CultureInfo.InvariantCulture) + "  " +
                    PlayerTexts.Text(Locale, "Sign in with {provider}", providers[number].Label));
            for (; ; )
            {
                Print(PlayerTexts.Text(Locale, "How do you want to sign in?"));
                string line = await LineAsync(cancel).ConfigureAwait(false);
                int chosen;
                if (line == null)
                    return null;
                if (int.TryParse(line, NumberStyles.Integer, CultureInfo.InvariantCulture, out chosen)
                    && chosen >= 1 && chosen <= providers.Count)
                    return providers[chosen - 1].Name;
            }
        }

        /// <summary>Prints the link.</summary>
        public virtual void BrowserOpened(string url, bool opened, string qrUrl)
        {
            if (opened)
                Print(PlayerTexts.Text(Locale, "The sign-in continues in your browser."));
            Print(PlayerTexts.Text(Locale, "Open this address in your browser to sign in:"));
            Print("  " + url);
        }

        /// <summary>Opens the page with the code and asks for it.</summary>
        public virtual async Task<string> FinishCodeAsync(Action showCode, int? attemptsLeft, CancellationToken cancel)
        {
            if (attemptsLeft != null)
                Print(PlayerTexts.Text(Locale, "That is not the code. Attempts left: {count}",
                    attemptsLeft.Value.ToString(CultureInfo.InvariantCulture)));
            else if (showCode != null)
                Print(PlayerTexts.Text(Locale, "Press Enter to see a code in the browser."));
            for (bool offered = showCode != null && attemptsLeft == null; ; offered = false)
            {
                if (!offered)
                    Print(PlayerTexts.Text(Locale, "Type the six letters that the sign-in page shows."));
                string line = await LineAsync(cancel).ConfigureAwait(false);
                string code = line == null ? null : SignIn.FinishCode(line);
                if (line == null || code != null)
                    return code;
                if (offered)
                    showCode();
            }
        }

        /// <summary>Prints the text for the player.</summary>
        public virtual void Problem(GamedError error) => Print(PlayerTexts.Problem(Locale, error));

        static void Print(string line) => Console.Error.WriteLine(line);
    }

    /// <summary>The texts for players: in English, and in the languages of GamedTexts.cs if the game has that
    /// file.</summary>
    public static partial class PlayerTexts
    {
        static readonly Regex Language = new Regex(
            @"\A[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8}){0,3}(?![A-Za-z0-9])");

        /// <summary>Returns a text in a language, called by its English form, with the value of its
        /// placeholder.</summary>
        public static string Text(string locale, string english, string value = null)
        {
            int language = NumberOf(locale);
            string found = Translated(language, english);
            if (value != null && IsRightToLeft(language))
                value = "\u2068" + value + "\u2069";  // a value of another direction does not turn the text around it
            int begin = found.IndexOf('{'), end = found.IndexOf('}');
            return begin < 0 || end < begin ? found : found.Substring(0, begin) + value + found.Substring(end + 1);
        }

        /// <summary>Returns what the player reads of an error; its English detail, if there is no other
        /// text.</summary>
        public static string Problem(string locale, GamedError error)
        {
            int language = NumberOf(locale);
            string[] lines = null;
            Lines(error.Code, ref lines);
            if (lines == null || language < 0)
                return error.Detail;
            var said = new List<string>();
            foreach (string line in lines)
            {
                string translated = Translated(language, line);
                if (translated == line)
                    return error.Detail;
                said.Add(translated);
            }
            string number = Members.Maybe<string>(error.Problem, "approval_code");
            if (number != null)
                said.Add(Translated(language, "Tell the owner this number:") + " " + number);
            return string.Join("\n", said.ToArray());
        }

        /// <summary>Returns true for a language whose script is written from right to left.</summary>
        public static bool IsRightToLeft(string locale) => IsRightToLeft(NumberOf(locale));

        /// <summary>Returns a language as a tag of BCP 47: "pt_BR.UTF-8" is "pt-BR"; "" for "C" and others that name no
        /// language.</summary>
        internal static string Tag(string locale) => Language.Match(locale ?? "").Value.Replace('_', '-');

        static int NumberOf(string locale)
        {
            int language = -1;
            Find(Tag(locale), ref language);
            return language;
        }

        static string Translated(int language, string english)
        {
            string found = null;
            Translate(language, english, ref found);
            return string.IsNullOrEmpty(found) ? english : found;
        }

        static bool IsRightToLeft(int language)
        {
            bool turned = false;
            Turn(language, ref turned);
            return turned;
        }

        static partial void Find(string tag, ref int language);
        static partial void Turn(int language, ref bool rightToLeft);
        static partial void Translate(int language, string english, ref string found);
        static partial void Lines(string code, ref string[] lines);
    }

    /// <summary>Options of a sign-in; all optional.</summary>
    public sealed class SignInOptions
    {
        /// <summary>The defaults: a browser on this machine, which returns by itself.</summary>
        public SignInOptions()
        {
            OpenBrowser = Browser.Open;
            Loopback = true;
        }

        /// <summary>The provider, if the player does not choose one (docs/protocol.md: Start).</summary>
        public string Provider { get; set; }

        /// <summary>Opens a checked address; returns true if it did. Null: the browser is on another machine.
        /// In Unity: url =&gt; { Application.OpenURL(url); return true; } on the main thread.</summary>
        public Func<string, bool> OpenBrowser { get; set; }

        /// <summary>True to listen for the browser's return; false: the player types the finish code.</summary>
        public bool Loopback { get; set; }

        /// <summary>Replaces Loopback on a phone: the address with which the browser opens the app again, one of the
        /// server's `app_links`, such as `com.example.game:/signin`. Pass each address with which the app is opened to
        /// <see cref="GamedClient.Returned"/>.</summary>
        public string ReturnUri { get; set; }

        /// <summary>The page first asks for the name and password of an account that this server had in `local` mode;
        /// the player keeps that account.</summary>
        public bool Adopt { get; set; }
    }

    /// <summary>The person's own browser.</summary>
    public static class Browser
    {
        /// <summary>Opens an address with the system's function, never through a shell; returns false if the system
        /// does not have a browser.</summary>
        public static bool Open(string url)
        {
            Origin.Of(url);
            if (Disk.IsWindows)
                return Started(new ProcessStartInfo(url) { UseShellExecute = true });  // ShellExecute, no shell
            string[] openers = Disk.IsMac ? new[] { "/usr/bin/open" } : new[] { "xdg-open", "x-www-browser" };
            return openers.Any(opener => Started(new ProcessStartInfo(opener, url) { UseShellExecute = false }));
        }

        static bool Started(ProcessStartInfo how)
        {
            try
            {
                using (Process.Start(how))
                    return true;
            }
            catch (Exception e)
            {
                if (e is Win32Exception || e is FileNotFoundException || e is InvalidOperationException)
                    return false;
                throw;
            }
        }
    }

    /// <summary>The proof that browser and client belong together: a `ticket` or a `finish_code`.</summary>
    sealed class Proof
    {
        internal readonly string Kind;
        internal readonly string Text;
        internal readonly TaskCompletionSource<bool> Answered = new TaskCompletionSource<bool>();
        internal readonly TaskCompletionSource<bool> Replied = new TaskCompletionSource<bool>();

        internal Proof(string kind, string text)
        {
            Kind = kind;
            Text = text;
        }
    }

    /// <summary>A queue of proofs, or the failure of their source.</summary>
    sealed class Proofs
    {
        readonly ConcurrentQueue<Proof> waiting = new ConcurrentQueue<Proof>();
        readonly SemaphoreSlim count = new SemaphoreSlim(0);
        ExceptionDispatchInfo failure;

        internal void Add(Proof proof)
        {
            waiting.Enqueue(proof);
            count.Release();
        }

        internal void Fail(Exception error)
        {
            failure = ExceptionDispatchInfo.Capture(error);
            count.Release();
        }

        /// <summary>Returns the next proof, or null after the time.</summary>
        internal async Task<Proof> NextAsync(double seconds, CancellationToken cancel)
        {
            Proof found = null;
            if (await count.WaitAsync(TimeSpan.FromSeconds(seconds), cancel).ConfigureAwait(false))
                if (!waiting.TryDequeue(out found) && failure != null)
                    failure.Throw();
            return found;
        }
    }

    /// <summary>The loopback listener for the browser's return: 127.0.0.1, a random port, one path, one login
    /// (docs/protocol.md: Collect).</summary>
    sealed class Listener : IDisposable
    {
        const int MaxHead = 8192, MaxConnections = 16, HeadSeconds = 10;
        internal const double ReturnSeconds = 5;

        static readonly Regex Ticket = new Regex(@"\A[A-Za-z0-9_-]{1,256}\z");

        readonly TcpListener socket = new TcpListener(IPAddress.Loopback, 0);
        readonly SemaphoreSlim places = new SemaphoreSlim(MaxConnections);
        readonly CancellationTokenSource closed = new CancellationTokenSource();
        readonly string doneUrl;
        readonly Proofs proofs;

        internal volatile string LoginId = "";

        internal int Port { get; private set; }

        /// <summary>Starts a listener; returns null if the program may not listen: the player types the code
        /// then.</summary>
        internal static Listener Maybe(string doneUrl, Proofs proofs)
        {
            try
            {
                return new Listener(doneUrl, proofs);
            }
            catch (SocketException)
            {
                return null;
            }
        }

        Listener(string doneUrl, Proofs proofs)
        {
            this.doneUrl = doneUrl;
            this.proofs = proofs;
            if (Disk.IsWindows)
                socket.ExclusiveAddressUse = true;  // else another program could listen on the same port
            socket.Start();
            Port = ((IPEndPoint)socket.LocalEndpoint).Port;
            AcceptAsync().Forget();
        }

        public void Dispose()
        {
            closed.Cancel();
            socket.Stop();
        }

        async Task AcceptAsync()
        {
            try
            {
                while (!closed.IsCancellationRequested)
                {
                    await places.WaitAsync(closed.Token).ConfigureAwait(false);
                    ServeAsync(await AcceptedAsync().ConfigureAwait(false)).Forget();
                }
            }
            catch (Exception e)
            {
                if (!closed.IsCancellationRequested)
                    proofs.Fail(e);
            }
        }

        /// <summary>Returns the next connection; skips one that the browser has closed already.</summary>
        async Task<TcpClient> AcceptedAsync()
        {
            for (; ; )
            {
                try
                {
                    return await socket.AcceptTcpClientAsync().ConfigureAwait(false);
                }
                catch (SocketException)
                {
                    closed.Token.ThrowIfCancellationRequested();
                }
                await Task.Delay(100, closed.Token).ConfigureAwait(false);
            }
        }

        async Task ServeAsync(TcpClient browser)
        {
            try
            {
                using (browser)
                using (var late = new CancellationTokenSource(TimeSpan.FromSeconds(HeadSeconds)))
                {
                    string head;
                    using (late.Token.Register(browser.Close))
                        head = await HeadAsync(browser.GetStream()).ConfigureAwait(false);
                    if (head != null)
                        await AnswerAsync(browser.GetStream(), head).ConfigureAwait(false);
                }
            }
            catch (Exception e)
            {
                if (!(e is IOException || e is ObjectDisposedException || e is SocketException
                    || e is InvalidOperationException || e is NullReferenceException))
                    proofs.Fail(e);  // a browser that closes its connection is not a failure
            }
            finally
            {
                places.Release();
            }
        }

        static async Task<string> HeadAsync(Stream stream)
        {
            var buffer = new byte[MaxHead];
            for (int size = 0; size < MaxHead;)
            {
                int read = await stream.ReadAsync(buffer, size, MaxHead - size).ConfigureAwait(false);
                if (read == 0)
                    return null;
                size += read;
                string text = Encoding.ASCII.GetString(buffer, 0, size);
                int end = text.IndexOf("\r\n\r\n", StringComparison.Ordinal);
                if (end >= 0)
                    return text.Substring(0, end);
            }
            return null;
        }

        async Task AnswerAsync(Stream stream, string head)
        {
            string ticket = TicketOf(head.Split(new[] { "\r\n" }, StringSplitOptions.None));
            if (ticket == null)
            {
                await WriteAsync(stream, "404 Not Found", "").ConfigureAwait(false);
                return;
            }
            var proof = new Proof("ticket", ticket);
            proofs.Add(proof);
            Task late = Task.Delay(TimeSpan.FromSeconds(ReturnSeconds));
            await Task.WhenAny(proof.Answered.Task, late).ConfigureAwait(false);
            string location = "Location: " + doneUrl + "?login_id=" + Uri.EscapeDataString(LoginId) + "\r\n";
            await WriteAsync(stream, "303 See Other", location).ConfigureAwait(false);
            proof.Replied.TrySetResult(true);
        }

        /// <summary>Returns the ticket of a request; null for another login's or any other request, which must not have
        /// an effect.</summary>
        string TicketOf(string[] lines)
        {
            string[] request = lines[0].Split(' ');
            string[] hosts = lines.Skip(1).Where(line => line.StartsWith("host:", StringComparison.OrdinalIgnoreCase))
                .Select(line => line.Substring(5).Trim()).ToArray();
            string host = "127.0.0.1:" + Port.ToString(CultureInfo.InvariantCulture);
            if (request.Length != 3 || request[0] != "GET"
                || !request[2].StartsWith("HTTP/1.", StringComparison.Ordinal) || hosts.Length != 1 || hosts[0] != host)
                return null;
            string[] target = request[1].Split(new[] { '?' }, 2);
            return target[0] == "/gamed/return" && target.Length == 2 ? TicketOf(target[1], LoginId) : null;
        }

        /// <summary>Returns the ticket of a query with this login only, else null.</summary>
        internal static string TicketOf(string query, string loginId)
        {
            string[] pairs = query.Split('&');
            string ticket = Only(pairs, "ticket");
            bool ours = loginId != "" && Only(pairs, "login_id") == loginId;
            return ours && ticket != null && Ticket.IsMatch(ticket) ? ticket : null;
        }

        static string Only(string[] pairs, string name)
        {
            string[] values = pairs.Where(pair => pair.StartsWith(name + "=", StringComparison.Ordinal)).ToArray();
            return values.Length == 1 ? Uri.UnescapeDataString(values[0].Substring(name.Length + 1)) : null;
        }

        static async Task WriteAsync(Stream stream, string status, string fields)
        {
            string head = "HTTP/1.1 " + status + "\r\n" + fields + "Content-Length: 0\r\nCache-Control: no-store\r\n" +
                "Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n";
            byte[] data = Encoding.ASCII.GetBytes(head);
            await stream.WriteAsync(data, 0, data.Length).ConfigureAwait(false);
        }
    }

    static class Tasks
    {
        /// <summary>Awaits no result: the task handles its own failures.</summary>
        internal static void Forget(this Task task)
        {
        }
    }

    /// <summary>One login: start, browser, return proof, collect (docs/protocol.md: Signing in). Call RunAsync once;
    /// CancelAsync may be called from any thread.</summary>
    public sealed class SignIn
    {
        /// <summary>Characters that the server adds to a return address, at most.</summary>
        const int MaxReturn = 1024;

        readonly Wire wire;
        readonly IPerson person;
        readonly SignInOptions options;
        readonly bool links;
        readonly Func<CancellationToken, Task<Dictionary<string, object>>> prepare;
        readonly Func<Call, CancellationToken, Task<Answer>> begin;
        readonly Func<IDictionary<string, object>, CancellationToken, Task<Credential>> keep;
        readonly Proofs proofs = new Proofs();
        readonly CancellationTokenSource over = new CancellationTokenSource();

        /// <summary>Cancelled before the server has responded to the start.</summary>
        readonly CancellationTokenSource early = new CancellationTokenSource();

        /// <summary>Cancelled without a response of the server, which could have ended the wait.</summary>
        readonly CancellationTokenSource unheard = new CancellationTokenSource();

        Listener listener;
        string loginUrl, qrUrl, pollPath;
        volatile string loginId = "";
        long maxWait;
        bool codeOnly, asked;
        volatile string secret;
        volatile bool cancelled;
        Stopwatch clock;
        double deadline;

        /// <summary>`prepare` makes the body of the start, `begin` sends it, `keep` stores the outcome.</summary>
        internal SignIn(Wire wire, IPerson person, SignInOptions options, bool links,
            Func<CancellationToken, Task<Dictionary<string, object>>> prepare,
            Func<Call, CancellationToken, Task<Answer>> begin,
            Func<IDictionary<string, object>, CancellationToken, Task<Credential>> keep)
        {
            this.wire = wire;
            this.person = person;
            this.options = options;
            this.links = links;
            this.prepare = prepare;
            this.begin = begin;
            this.keep = keep;
        }

        /// <summary>The linked provider in the server's spelling, once a link has succeeded; null for a
        /// sign-in.</summary>
        public string Linked { get; private set; }

        /// <summary>True once RunAsync has its outcome: a late Cancel must not end the new session.</summary>
        internal bool Ended => over.IsCancellationRequested;

        /// <summary>Passes the address with which the app was opened; returns false if it belongs to another login: it
        /// does not have an effect then.</summary>
        public bool Returned(string url)
        {
            string before = options.ReturnUri, ticket = null;
            bool ours = before != null && url != null && url.StartsWith(before, StringComparison.Ordinal);
            if (ours && url.Length <= before.Length + MaxReturn)
            {
                string rest = url.Substring(before.Length);
                string separator = before.Contains("?") ? "&" : "?";
                if (rest.StartsWith(separator, StringComparison.Ordinal))
                    ticket = Listener.TicketOf(rest.Substring(1), loginId);
            }
            if (ticket != null)
                proofs.Add(new Proof("ticket", ticket));
            return ticket != null;
        }

        /// <summary>Signs in through the browser; ends once the credential is on disk. Any failure cancels the login.
        /// Throws LoginFailedException or a subclass, GamedError, OperationCanceledException.</summary>
        public Task<Credential> RunAsync(CancellationToken cancel = default(CancellationToken)) =>
            Task.Run(() => RunHereAsync(cancel), cancel);

        async Task<Credential> RunHereAsync(CancellationToken cancel)
        {
            ExceptionDispatchInfo failure;
            try
            {
                await StartAsync(cancel).ConfigureAwait(false);
                if (!cancelled)
                    Show();
                else
                    await CancelAsync().ConfigureAwait(false);
                IDictionary<string, object> complete = await UntilAsync(unheard.Token, SettleAsync, cancel)
                    .ConfigureAwait(false);
                if (links)
                    Linked = Members.Of<string>(Members.Of<Dictionary<string, object>>(complete, "linked"), "provider");
                return await keep(complete, cancel).ConfigureAwait(false);
            }
            catch (Exception e)
            {
                failure = ExceptionDispatchInfo.Capture(e);
            }
            finally
            {
                over.Cancel();
                listener?.Dispose();
            }
            if (!(failure.SourceException is LoginFailedException))  // after it the login has ended already
                await CancelAsync().ConfigureAwait(false);
            failure.Throw();
            throw failure.SourceException;
        }

        /// <summary>Cancels the login at the server: credentials of it do not work after this, and RunAsync throws
        /// LoginCancelledException. Never throws.</summary>
        public Task CancelAsync()
        {
            cancelled = true;
            return Task.Run(() => CancelHereAsync());  // a platform may resolve the server's name before it returns
        }

        async Task CancelHereAsync()
        {
            early.Cancel();
            if (secret == null)
                return;
            var how = new Call { Bearer = secret, Timeout = 5, Tries = 1 };
            try
            {
                await wire.CallAsync("POST", "/auth/login/cancel", how, CancellationToken.None).ConfigureAwait(false);
            }
            catch (GamedError error)
            {
                if (error.Code != "login_collected")  // else the credentials are on their way
                    unheard.Cancel();  // the server will not end the wait for the browser
            }
        }

        Task<Dictionary<string, object>> PreparedAsync(CancellationToken cancel) =>
            UntilAsync(early.Token, async both =>
            {
                Dictionary<string, object> start = await prepare(both).ConfigureAwait(false);
                both.ThrowIfCancellationRequested();
                return start;
            }, cancel);

        /// <summary>Awaits `work`, which `end` cancels if the sign-in was cancelled; throws LoginCancelledException
        /// then.</summary>
        async Task<T> UntilAsync<T>(CancellationToken end, Func<CancellationToken, Task<T>> work,
            CancellationToken cancel)
        {
            using (CancellationTokenSource both = CancellationTokenSource.CreateLinkedTokenSource(cancel, end))
                try
                {
                    return await work(both.Token).ConfigureAwait(false);
                }
                catch (OperationCanceledException)
                {
                    if (!cancelled)
                        throw;
                    throw Errors.Cancelled();
                }
        }

        async Task StartAsync(CancellationToken cancel)
        {
            Dictionary<string, object> start = await PreparedAsync(cancel).ConfigureAwait(false);
            if (options.ReturnUri != null)
                start["return_uri"] = options.ReturnUri;
            else if (options.Loopback)
                listener = Listener.Maybe(wire.Origin + "/auth/login/done", proofs);
            if (listener != null)
                start["loopback_port"] = listener.Port;
            Dictionary<string, object> started = (await begin(new Call { Json = start }, cancel).ConfigureAwait(false))
                .Json();
            string received = Members.Of<string>(started, "device_secret");
            if (!Credential.Tokens.IsMatch(received))
                throw new NotGamedException("The server's answer has a malformed 'device_secret'.");
            secret = received;
            clock = Stopwatch.StartNew();
            deadline = Members.Of<long>(started, "expires_in") + 30;
            loginUrl = wire.Origin.Require(Members.Of<string>(started, "login_url"));
            qrUrl = OwnOrNull(Members.Maybe<string>(started, "qr_url"));
            var poll = Members.Of<Dictionary<string, object>>(started, "poll");
            pollPath = wire.Origin.PathOf(Members.Of<string>(poll, "url"));
            maxWait = Math.Max(0, Math.Min(Members.Of<long>(poll, "max_wait"), 25));
            codeOnly = Members.Maybe<string>(started, "return_proof") == "code";
            if (listener != null || options.ReturnUri != null)
                loginId = Members.Of<string>(started, "login_id");
            if (listener != null)
                listener.LoginId = loginId;
        }

        /// <summary>Returns `url`, or null if it is on another server: a sign-in continues without the QR
        /// code.</summary>
        string OwnOrNull(string url)
        {
            try
            {
                return url == null ? null : wire.Origin.Require(url);
            }
            catch (UntrustedAddressException)
            {
                return null;
            }
        }

        void Show()
        {
            bool opened = options.OpenBrowser != null && options.OpenBrowser(loginUrl);
            person.BrowserOpened(loginUrl, opened, qrUrl);
        }

        /// <summary>Collects until there is an outcome. After a lost response the same proof is sent again.</summary>
        async Task<IDictionary<string, object>> SettleAsync(CancellationToken cancel)
        {
            string stage = "waiting_for_browser";
            Proof proof = null;
            for (; ; )
            {
                IDictionary<string, object> answer = await ProvenAsync(stage, proof, cancel).ConfigureAwait(false);
                string status = Members.Maybe<string>(answer, "status");
                if (status == "complete")
                {
                    bool byListener = listener != null && proof != null && proof.Kind == "ticket";
                    if (byListener)  // the game may exit after this: let the browser receive its page first
                        await Task.WhenAny(proof.Replied.Task, Task.Delay(1000, cancel)).ConfigureAwait(false);
                    return answer;
                }
                if (status == "failed")
                    throw Errors.OfLogin(Members.Of<Dictionary<string, object>>(answer, "problem"));
                stage = Members.Of<string>(answer, "stage");
                proof = stage == "proof_required" ? await AwaitProofAsync(cancel).ConfigureAwait(false) : null;
            }
        }

        async Task<IDictionary<string, object>> ProvenAsync(string stage, Proof proof, CancellationToken cancel)
        {
            InvalidProof wrong;
            try
            {
                return await CollectAsync(stage, proof, cancel).ConfigureAwait(false);
            }
            catch (InvalidProofException e)
            {
                wrong = e;
            }
            finally
            {
                proof?.Answered.TrySetResult(true);
            }
            IDictionary<string, object> answer = await CollectAsync(stage, null, cancel).ConfigureAwait(false);
            if (proof != null && proof.Kind == "finish_code" && wrong.AttemptsLeft > 0)
                Ask(wrong.AttemptsLeft);
            return answer;
        }

        /// <summary>Requests collect until the server responds, for as long as the login lives.</summary>
        async Task<IDictionary<string, object>> CollectAsync(string stage, Proof proof, CancellationToken cancel)
        {
            long wait = proof != null || stage == "proof_required" ? 0 : maxWait;
            var body = new Dictionary<string, object> { { "wait", wait }, { "seen", stage } };
            if (proof != null)
                body[proof.Kind] = proof.Text;
            var how = new Call { Json = body, Bearer = secret, Wait = wait, Tries = 1 };
            for (int attempt = 0; ; attempt = Math.Min(attempt + 1, 6))
            {
                try
                {
                    return (await wire.CallAsync("POST", pollPath, how, cancel).ConfigureAwait(false)).Json();
                }
                catch (GamedError error)
                {
                    double left = deadline - clock.Elapsed.TotalSeconds;
                    await wire.PauseAsync(error, attempt, int.MaxValue, left, cancel).ConfigureAwait(false);
                }
            }
        }

        /// <summary>Waits ReturnSeconds for the browser's return or a typed code; without one ask the person, once per
        /// sign-in.</summary>
        async Task<Proof> AwaitProofAsync(CancellationToken cancel)
        {
            if (codeOnly)
                Ask(null);
            Proof proof = await proofs.NextAsync(wire.Options.ReturnSeconds, cancel).ConfigureAwait(false);
            if (proof == null)
                Ask(null);
            return proof;
        }

        void Ask(int? attemptsLeft)
        {
            if (attemptsLeft == null && asked)
                return;
            asked = true;
            Task.Run(() => HearAsync(attemptsLeft)).Forget();
        }

        async Task HearAsync(int? attemptsLeft)
        {
            try
            {
                string code = await person.FinishCodeAsync(codeOnly ? (Action)null : Show, attemptsLeft, over.Token)
                    .ConfigureAwait(false);
                if (code != null)
                    proofs.Add(new Proof("finish_code", code));
            }
            catch (OperationCanceledException)
            {
            }
            catch (Exception e)
            {
                proofs.Fail(e);
            }
        }

        /// <summary>Returns the typed code as `BKTRVW`, or null if it cannot be one: a typing error costs no
        /// attempt.</summary>
        public static string FinishCode(string typed)
        {
            string letters = Regex.Replace(typed, @"[\s-]", "").ToUpperInvariant();
            return Regex.IsMatch(letters, @"\A[BCDFGHJKLMNPQRSTVWXZ]{6}\z") ? letters : null;
        }
    }

    // --- Saves -------------------------------------------------------------------------------------------------------

    /// <summary>One version of one slot (docs/protocol.md: Saves). A later write passes <see cref="Etag"/> as its
    /// base.</summary>
    public sealed partial class SaveInfo
    {
        static readonly Regex Etags = new Regex("\\A\"[!#-~]{1,100}\"\\z");

        SaveInfo()
        {
        }

        /// <summary>1 to 64 of a-z 0-9 . _ -</summary>
        public string Slot { get; private set; }

        /// <summary>Counts up by slot, from 1.</summary>
        public long Version { get; private set; }

        /// <summary>With its quotes.</summary>
        public string Etag { get; private set; }

        /// <summary>Bytes.</summary>
        public long Size { get; private set; }

        /// <summary>64 digits of hex.</summary>
        public string Sha256 { get; private set; }

        /// <summary>A media type.</summary>
        public string ContentType { get; private set; }

        /// <summary>RFC 3339, by the server's clock.</summary>
        public string Modified { get; private set; }

        /// <summary>The `meta` of the save; empty without any.</summary>
        public IDictionary<string, object> Meta { get; private set; }

        /// <summary>Numbers of the versions that lost against this one; the player has to choose.</summary>
        public IList<long> Conflicts { get; private set; }

        /// <summary>The name of the device that wrote this version, or null.</summary>
        public string Device { get; private set; }

        /// <summary>Throws NotGamedException.</summary>
        internal static SaveInfo Of(IDictionary<string, object> value)
        {
            var found = new SaveInfo
            {
                Slot = Members.Of<string>(value, "slot"),
                Version = Members.Of<long>(value, "version"),
                Etag = Members.Of<string>(value, "etag"),
                Size = Members.Of<long>(value, "size"),
                Sha256 = Members.Of<string>(value, "sha256"),
                ContentType = Members.Maybe<string>(value, "content_type") ?? GamedClient.Bytes,
                Modified = Members.Maybe<string>(value, "modified") ?? "",
                Meta = Members.Maybe<Dictionary<string, object>>(value, "meta") ?? new Dictionary<string, object>(),
                Conflicts = Members.List(value, "conflicts").OfType<long>().ToList().AsReadOnly(),
                Device = Members.Maybe<string>(value, "device"),
            };
            if (!Etags.IsMatch(found.Etag) || !Saves.Hashes.IsMatch(found.Sha256))
                throw new NotGamedException("The server's answer has a malformed 'etag' or 'sha256'.");
            return found;
        }

        internal static SaveInfo Maybe(object value)
        {
            var members = value as IDictionary<string, object>;
            return members == null ? null : Of(members);
        }

        /// <summary>Returns the members of the protocol, for <see cref="Json.Write(object)"/>.</summary>
        public Dictionary<string, object> ToJson() =>
            new Dictionary<string, object>
            {
                { "slot", Slot }, { "version", Version }, { "etag", Etag }, { "size", Size }, { "sha256", Sha256 },
                { "content_type", ContentType }, { "modified", Modified }, { "meta", Meta },
                { "conflicts", Conflicts.Cast<object>().ToList() }, { "device", Device },
            };

        /// <summary>Slot and etag.</summary>
        public override string ToString() => Slot + " " + Etag;
    }

    /// <summary>An entry of a list of changes: <see cref="Version"/> deleted the save.</summary>
    public sealed class Deletion
    {
        /// <summary>The slot whose save was deleted.</summary>
        public string Slot { get; internal set; }

        /// <summary>The version of the delete.</summary>
        public long Version { get; internal set; }
    }

    /// <summary>The result of GamedClient.ChangesAsync.</summary>
    public sealed class Changes
    {
        /// <summary>The cursor for the next call.</summary>
        public string Cursor { get; private set; }

        /// <summary>The slots that have a save.</summary>
        public IList<SaveInfo> Saves { get; private set; }

        /// <summary>The slots whose save was deleted; none in a whole list.</summary>
        public IList<Deletion> Deletions { get; private set; }

        /// <summary>The list has all slots, not only changed ones, because the call had no cursor or the server no
        /// longer knows it.</summary>
        public bool Whole { get; private set; }

        /// <summary>The server has further changes: ask with Cursor at once. A slot may be listed again there, with a
        /// newer state.</summary>
        public bool More { get; private set; }

        /// <summary>For a whole list: a slot that is missing on all its pages was deleted long ago.</summary>
        public bool Expired { get; private set; }

        internal static Changes Of(IDictionary<string, object> value, bool whole)
        {
            ILookup<bool, IDictionary<string, object>> listed = Members.Objects(value, "saves").ToLookup(
                entry => (Members.Maybe<object>(entry, "deleted") ?? false) as bool? != false);
            return new Changes
            {
                Cursor = Members.Of<string>(value, "cursor"),
                Saves = listed[false].Select(SaveInfo.Of).ToList().AsReadOnly(),
                Deletions = listed[true].Select(entry => new Deletion
                {
                    Slot = Members.Of<string>(entry, "slot"), Version = Members.Of<long>(entry, "version"),
                }).ToList().AsReadOnly(),
                Whole = whole || Members.Maybe<bool>(value, "reset"),
                Expired = Members.Maybe<bool>(value, "reset") && Members.Maybe<bool>(value, "expired"),
                More = Members.Maybe<bool>(value, "more"),
            };
        }
    }

    /// <summary>A part of a slot's history: the result of <see cref="GamedClient.VersionsPageAsync"/>.</summary>
    public sealed class VersionsPage
    {
        /// <summary>Newest first.</summary>
        public IList<SaveVersion> Versions { get; private set; }

        /// <summary>The server has older ones: ask for those `before` the last one here.</summary>
        public bool More { get; private set; }

        internal static VersionsPage Of(IDictionary<string, object> value, long? before)
        {
            IList<SaveVersion> listed = Members.Objects(value, "versions").Select(SaveVersion.Of).ToList().AsReadOnly();
            bool more = Members.Maybe<bool>(value, "more");
            if (more && (listed.Count == 0 || (before != null && listed.Last().Version >= before)))
                throw new NotGamedException("The server's pages of versions do not end.");
            return new VersionsPage { Versions = listed, More = more };
        }
    }

    /// <summary>One version in a slot's history.</summary>
    public sealed partial class SaveVersion
    {
        /// <summary>Counts up by slot, from 1.</summary>
        public long Version { get; private set; }

        /// <summary>write, restore, conflict or delete.</summary>
        public string Kind { get; private set; }

        /// <summary>The version that it replaced, or null.</summary>
        public long? Parent { get; private set; }

        /// <summary>The latest time of its deletion (RFC 3339); null while only newer versions can replace
        /// it.</summary>
        public string Expires { get; private set; }

        /// <summary>Null for a delete.</summary>
        public SaveInfo Save { get; private set; }

        /// <summary>The name of the device that wrote or deleted, or null.</summary>
        public string Device { get; private set; }

        internal static SaveVersion Of(IDictionary<string, object> value) =>
            new SaveVersion
            {
                Version = Members.Of<long>(value, "version"),
                Kind = Members.Of<string>(value, "kind"),
                Parent = Members.Maybe<long?>(value, "parent"),
                Expires = Members.Maybe<string>(value, "expires"),
                Save = Members.Maybe<string>(value, "etag") == null ? null : SaveInfo.Of(value),
                Device = Members.Maybe<string>(value, "device"),
            };
    }

    /// <summary>The bytes of a slot at the time of the read.</summary>
    public sealed class Save
    {
        /// <summary>With its quotes.</summary>
        public string Etag { get; internal set; }

        /// <summary>The bytes, checked.</summary>
        public byte[] Data { get; internal set; }

        /// <summary>A media type.</summary>
        public string ContentType { get; internal set; }

        /// <summary>The `meta` of the save; empty without any.</summary>
        public IDictionary<string, object> Meta { get; internal set; }

        internal static Save Of(Answer answer)
        {
            string text = answer.Header("Save-Meta");
            object meta = text == "" ? null
                : Errors.Parsed(() => Json.Parse(text), "The server's 'Save-Meta' is not JSON.", answer.Status);
            return new Save
            {
                Etag = answer.Header("ETag"), Data = answer.Body, ContentType = answer.Header("Content-Type"),
                Meta = meta as IDictionary<string, object> ?? new Dictionary<string, object>(),
            };
        }
    }

    /// <summary>The base of a write: a Save or SaveInfo that was read, or its etag; <see cref="Whatever"/> for any
    /// existing version, null for an empty slot.</summary>
    public sealed class Base
    {
        static readonly Regex Tags = new Regex("\\A(\\*|\"[!#-~]{1,100}\")\\z");

        /// <summary>Replaces any existing version: use it only if the player has just agreed.</summary>
        public static readonly Base Whatever = new Base("*");

        readonly string tag;

        Base(string tag)
        {
            if (!Tags.IsMatch(tag))
                throw new RefusedException(new Failure("bad_precondition", "That is not the etag of a save."));
            this.tag = tag;
        }

        /// <summary>Null for null; throws RefusedException if it has no etag.</summary>
        public static implicit operator Base(Save save) => save == null ? null : new Base(save.Etag);

        /// <summary>Null for null; throws RefusedException if it has no etag.</summary>
        public static implicit operator Base(SaveInfo info) => info == null ? null : new Base(info.Etag);

        /// <summary>Null for null; throws RefusedException if it has no etag.</summary>
        public static implicit operator Base(string etag) => etag == null ? null : new Base(etag);

        internal static Dictionary<string, string> Condition(Base on)
        {
            string name = on == null ? "If-None-Match" : "If-Match";
            return new Dictionary<string, string> { { name, on == null ? "*" : on.tag } };
        }

        /// <summary>The etag, or `*`.</summary>
        public override string ToString() => tag;
    }

    /// <summary>One write, or one delete, of a commit.</summary>
    public sealed class SlotWrite
    {
        readonly Base on;
        readonly string contentType;
        readonly IDictionary<string, object> meta;

        /// <summary>Writes `data`, based on `on`: null for a new slot. Do not change `data` until the commit has
        /// ended.</summary>
        public SlotWrite(string slot, byte[] data, Base on, string contentType = GamedClient.Bytes,
            IDictionary<string, object> meta = null)
        {
            if (data == null)
                throw new ArgumentNullException("data");
            Slot = slot;
            Data = data;
            Sha256 = Saves.Hex(Saves.Hash(data));
            this.on = on;
            this.contentType = contentType;
            this.meta = meta;
        }

        SlotWrite(string slot, Base on)
        {
            if (on == null)
                throw new ArgumentNullException("on");
            Slot = slot;
            this.on = on;
        }

        /// <summary>Deletes the version that was read.</summary>
        public static SlotWrite Deletion(string slot, Base on) => new SlotWrite(slot, on);

        /// <summary>The slot's name.</summary>
        public string Slot { get; private set; }

        /// <summary>Null for a delete.</summary>
        public byte[] Data { get; private set; }

        internal string Sha256 { get; private set; }

        internal Dictionary<string, object> ToJson()
        {
            Saves.PathOf(Slot);
            var entry = new Dictionary<string, object>
            {
                { "slot", Slot }, { on == null ? "if_none_match" : "if_match", on == null ? "*" : on.ToString() },
            };
            if (Data == null)
            {
                entry["delete"] = true;
                return entry;
            }
            entry["sha256"] = Sha256;
            entry["content_type"] = contentType;
            if (meta != null)
                entry["meta"] = Saves.Plain(meta);
            return entry;
        }
    }

    /// <summary>The result of one entry of a commit.</summary>
    public sealed class CommitResult
    {
        /// <summary>The slot's name.</summary>
        public string Slot { get; private set; }

        /// <summary>The slot's version; a delete is one, too.</summary>
        public long Version { get; private set; }

        /// <summary>Null if the slot was deleted.</summary>
        public SaveInfo Save { get; private set; }

        internal static CommitResult Of(IDictionary<string, object> value) =>
            new CommitResult
            {
                Slot = Members.Of<string>(value, "slot"),
                Version = Members.Of<long>(value, "version"),
                Save = Members.Maybe<string>(value, "etag") == null ? null : SaveInfo.Of(value),
            };
    }

    /// <summary>Names of slots, and digests.</summary>
    static class Saves
    {
        static readonly Regex Slots = new Regex(@"\A[a-z0-9][a-z0-9._-]{0,63}\z");
        internal static readonly Regex Devices = new Regex(@"\A(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?\z");
        internal static readonly Regex Hashes = new Regex(@"\A[0-9a-f]{64}\z");
        static readonly Regex Digest = new Regex(@"sha-256=:([A-Za-z0-9+/]+=*):");

        /// <summary>Returns whether the name is a slot; it is also a safe file name, on Windows too.</summary>
        internal static bool IsSlot(string slot) =>
            slot != null && Slots.IsMatch(slot) && !slot.EndsWith(".", StringComparison.Ordinal)
                && !Devices.IsMatch(slot);

        /// <summary>Returns the path of a slot; throws RefusedException for an invalid name.</summary>
        internal static string PathOf(string slot)
        {
            if (!IsSlot(slot))
                throw new RefusedException(new Failure("invalid_slot",
                    "A slot's name has 1-64 of a-z 0-9 . _ - and begins with a letter or digit."));
            return "/game/saves/" + slot;
        }

        internal static string VersionPath(string slot, long number) =>
            PathOf(slot) + "/versions/" + number.ToString(CultureInfo.InvariantCulture);

        internal static byte[] Hash(byte[] data)
        {
            using (var sha256 = new SHA256Managed())
                return sha256.ComputeHash(data);
        }

        internal static string Hex(byte[] data) =>
            string.Concat(data.Select(b => b.ToString("x2", CultureInfo.InvariantCulture)));

        /// <summary>`sha-256=:...:` (RFC 9530).</summary>
        internal static string DigestField(byte[] data) => "sha-256=:" + Convert.ToBase64String(Hash(data)) + ":";

        /// <summary>Throws DownloadCorruptException unless the body matches the server's digest.</summary>
        internal static void CheckDigest(Answer answer) => CheckDigest(answer.Header("Repr-Digest"), Hash(answer.Body));

        internal static void CheckDigest(string field, byte[] hash)
        {
            Match named = Digest.Match(field);
            if (!named.Success)
                throw new NotGamedException("The server's answer lacks 'Repr-Digest'.");
            byte[] expected = Errors.Parsed(() => Convert.FromBase64String(named.Groups[1].Value),
                "The server's 'Repr-Digest' is malformed.");
            if (!expected.SequenceEqual(hash))
                throw new DownloadCorruptException(new Failure("download_corrupt",
                    "The bytes arrived damaged. Try again."));
        }

        /// <summary>Returns a copy of plain JSON values; throws RefusedException for others before the request is
        /// sent.</summary>
        internal static Dictionary<string, object> Plain(IDictionary<string, object> meta)
        {
            try
            {
                return (Dictionary<string, object>)Json.Parse(Json.Write(meta ?? new Dictionary<string, object>()));
            }
            catch (ArgumentException)
            {
                throw new RefusedException(new Failure("bad_meta", "The meta of a save is a JSON object."));
            }
        }
    }

    /// <summary>One download of all saves: into a file beside the target, which it then replaces.</summary>
    sealed class Export
    {
        const int MaxErrorBytes = 1 << 16;

        /// <summary>The server may take this long to prepare an export before it sends the first byte.</summary>
        const double FirstByteSeconds = 120;

        /// <summary>The server answers `busy` with 30 seconds while an export whose connection broke still
        /// runs.</summary>
        const double LongestPauseSeconds = 60;

        readonly GamedClient client;
        readonly string path;
        string etag = "", digest = "";
        long size = -1;

        internal Export(GamedClient client, string path)
        {
            this.client = client;
            this.path = Path.GetFullPath(path);
        }

        internal async Task<long> RunAsync(CancellationToken cancel)
        {
            string temporary = Disk.Temporary(path);
            try
            {
                using (var file = new FileStream(temporary, FileMode.Open, FileAccess.ReadWrite, FileShare.None))
                {
                    await FetchAsync(file, cancel).ConfigureAwait(false);
                    Disk.Sync(file);
                }
                Disk.Move(temporary, path);
                return size;
            }
            catch
            {
                Disk.Delete(temporary);
                throw;
            }
        }

        /// <summary>Requests the rest until the export is complete. A try that received bytes does not count.</summary>
        async Task FetchAsync(FileStream file, CancellationToken cancel)
        {
            for (int attempt = 0; ; attempt++)
            {
                long before = file.Length;
                try
                {
                    await client.InNameAsync(used => StreamAsync(file, used.AccessToken, cancel), cancel)
                        .ConfigureAwait(false);
                    Check(file);
                    return;
                }
                catch (GamedError error)
                {
                    if (error is DownloadCorruptException)
                        file.SetLength(0);
                    else if (file.Length > before)
                        attempt = 0;
                    await client.Wire.PauseAsync(error, attempt, client.Wire.Tries, LongestPauseSeconds, cancel)
                        .ConfigureAwait(false);
                }
            }
        }

        Task<Answer> StreamAsync(FileStream file, string token, CancellationToken cancel)
        {
            var how = new Call { Bearer = token, Timeout = FirstByteSeconds };
            long start = file.Length;
            how.ContinueAt(start, size, etag);
            return client.Wire.DownloadAsync("/game/export", how, MaxErrorBytes, head =>
            {
                Begin(file, head, start);
                return (data, count) => file.WriteAsync(data, 0, count);
            }, cancel);
        }

        /// <summary>Checks the head of the rest; starts again if the server sends the whole export.</summary>
        void Begin(FileStream file, Answer head, long start)
        {
            if (head.ContinuesAt(start, size) && head.Header("ETag") == etag)
            {
                file.Seek(0, SeekOrigin.End);
                return;
            }
            if (head.Status == 206)
                throw new NotGamedException("The server sends another part of the file than was asked for.");
            file.SetLength(0);
            etag = head.Header("ETag");
            digest = head.Header("Repr-Digest");
            string length = head.Header("Content-Length");
            if (!long.TryParse(length, NumberStyles.None, CultureInfo.InvariantCulture, out size))
                size = -1;
        }

        void Check(FileStream file)
        {
            file.Seek(0, SeekOrigin.Begin);
            using (var sha256 = new SHA256Managed())
                Saves.CheckDigest(digest, sha256.ComputeHash(file));
            size = file.Length;
        }
    }

    // --- The client --------------------------------------------------------------------------------------------------

    /// <summary>Options of a client; all optional.</summary>
    public sealed partial class GamedOptions
    {
        /// <summary>The defaults, which suit most games.</summary>
        public GamedOptions()
        {
            App = "gamed";
            Version = GamedClient.ClientVersion;
            DeviceName = MachineName();
            Locale = CultureInfo.CurrentUICulture.Name;
            Send = PlatformHttp.SendAsync;
            Sleep = Task.Delay;
            Now = () => (DateTime.UtcNow - new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc)).TotalSeconds;
            TimeoutSeconds = 15;
            ReturnSeconds = Listener.ReturnSeconds;
            Tries = 4;
            UseToday();
        }

        /// <summary>Changes the defaults if the game has GamedNet.cs, too.</summary>
        partial void UseToday();

        static string MachineName()
        {
            try
            {
                return Environment.MachineName;
            }
            catch (InvalidOperationException)
            {
                return "";  // the system hides the machine's name
            }
        }

        /// <summary>The game's name, which separates its sign-in and saves from those of other games.</summary>
        public string App { get; set; }

        /// <summary>The game's version.</summary>
        public string Version { get; set; }

        /// <summary>The name of this device: the player reads it beside their saves and in the list of their devices.
        /// The machine's name by default; longer names are cut to 64 characters.</summary>
        public string DeviceName { get; set; }

        /// <summary>The game's language, such as "de" or "pt-BR": the pages of a sign-in are in it. The system's by
        /// default.</summary>
        public string Locale { get; set; }

        /// <summary>Replaces the platform's folder. In Unity on phones: Application.persistentDataPath.</summary>
        public string Folder { get; set; }

        /// <summary>Replaces the platform's storage of credentials; returns the store for a server.</summary>
        public Func<Origin, ICredentialStore> Store { get; set; }

        /// <summary>Sends one request and returns its response, of any status. It must not follow redirects or keep
        /// cookies. Throws IOException, WebException, TimeoutException or SocketException for a lost
        /// response.</summary>
        public Func<GamedRequest, CancellationToken, Task<GamedResponse>> Send { get; set; }

        /// <summary>Waits between two tries.</summary>
        public Func<TimeSpan, CancellationToken, Task> Sleep { get; set; }

        /// <summary>Returns the seconds since 1970.</summary>
        public Func<double> Now { get; set; }

        /// <summary>The timeout of each step on the network.</summary>
        public double TimeoutSeconds { get; set; }

        /// <summary>How long to wait for the browser's return before offering a code.</summary>
        public double ReturnSeconds { get; set; }

        /// <summary>The number of tries of a request with a temporary failure.</summary>
        public int Tries { get; set; }
    }

    /// <summary>One server, and the player who is signed in there.</summary>
    public sealed partial class GamedClient
    {
        /// <summary>The version of this file.</summary>
        public const string ClientVersion = "1.0.0rc1";

        internal const string Bytes = "application/octet-stream";

        /// <summary>A commit asks the server first whether it has the bytes of a save that is larger than
        /// this.</summary>
        const int AskFirstBytes = 64 << 10;

        static readonly Regex Segments = new Regex(@"\A[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}\z");

        readonly GamedOptions options;
        readonly ICredentialStore store;
        readonly Wire wire;
        readonly string player;
        volatile Credential held;
        volatile string tooOld;  // the session for which the server has last wanted a more recent sign-in
        volatile SignIn running;

        /// <summary>`server` is the address as the player entered it. Throws <see cref="UntrustedAddressException"/>;
        /// sends no request.</summary>
        public GamedClient(string server, GamedOptions options = null)
        {
            this.options = options ?? new GamedOptions();
            Origin = Origin.Entered(server);
            Folder = Path.GetFullPath(this.options.Folder ?? Disk.StateFolder(this.options.App));
            string unique = Saves.Hex(Saves.Hash(Encoding.UTF8.GetBytes(Origin.ToString()))).Substring(0, 12);
            Place = Regex.Replace(Origin.Host, "[^a-z0-9.-]", "_") + "-" + unique;
            store = new GuardedStore(this.options.Store != null ? this.options.Store(Origin)
                : CredentialFile.Of(Folder, Place, this.options.App));
            string agent = this.options.App.Replace(' ', '-') + "/" + this.options.Version +
                " gamed-client-csharp/" + ClientVersion;
            if (!Regex.IsMatch(agent, @"\A[!-~]+ [!-~]+\z"))
                throw new ArgumentException("App and Version: letters, digits, '.', '_', '-'");
            wire = new Wire { Origin = Origin, Agent = agent, Options = this.options, Tries = this.options.Tries };
        }

        GamedClient(GamedClient of, string player, int tries)
        {
            options = of.options;
            Origin = of.Origin;
            Folder = of.Folder;
            Place = of.Place;
            store = of.store;
            wire = of.wire.With(tries > 0 ? tries : of.wire.Tries);
            this.player = player;
        }

        /// <summary>The server.</summary>
        public Origin Origin { get; private set; }

        /// <summary>The folder of the credential, and of the pending saves of GamedSync.cs.</summary>
        public string Folder { get; private set; }

        /// <summary>The name of this server for files: its host, readable, and a hash of its origin, unique.</summary>
        public string Place { get; private set; }

        internal Wire Wire => wire;

        // -- the player --

        /// <summary>Returns whether this device has a credential; sends no request.</summary>
        public async Task<bool> SignedInAsync(CancellationToken cancel = default(CancellationToken)) =>
            await CredentialAsync(cancel).ConfigureAwait(false) != null;

        /// <summary>Reads the kept credential, or null, from the disk: another process, or a Sync, may have signed out
        /// meanwhile. Sends no request.</summary>
        public Task<Credential> CredentialAsync(CancellationToken cancel = default(CancellationToken)) =>
            Task.Run(() => held == null ? KeptAsync(cancel) : Task.FromResult(LookedAt(held)), cancel);

        /// <summary>Reads the credential without the lock, which a refresh may hold for long.</summary>
        Credential LookedAt(Credential known)
        {
            Credential kept;
            try
            {
                kept = Kept();
            }
            catch (LocalDamagedException e)
            {
                if (e.Code == "local_disk")
                    return known;  // on Windows the file cannot be read while it is replaced
                throw;
            }
            if (ReferenceEquals(held, known))
                held = kept;
            return kept;
        }

        async Task<Credential> KeptAsync(CancellationToken cancel)
        {
            using (await store.LockAsync(cancel).ConfigureAwait(false))
                return held = Kept();
        }

        Credential Kept()
        {
            string text = store.Read();
            return text == null ? null : Credential.FromJson(text, Origin);
        }

        /// <summary>Requests `GET /auth/config` (docs/protocol.md: Signing in).</summary>
        public Task<Policy> PolicyAsync(CancellationToken cancel = default(CancellationToken)) =>
            Task.Run(async () =>
            {
                Dictionary<string, object> value = await OfferedAsync("/auth/config", cancel).ConfigureAwait(false);
                return new Policy(Members.Of<string>(value, "mode"),
                    Members.Of<List<object>>(value, "providers").OfType<string>().ToList().AsReadOnly());
            }, cancel);

        async Task<Dictionary<string, object>> OfferedAsync(string path, CancellationToken cancel)
        {
            Answer answer = await wire.CallAsync("GET", path, new Call(), cancel).ConfigureAwait(false);
            if (!answer.Header("Gamed-Protocol").StartsWith("1.", StringComparison.Ordinal))
                throw new NotGamedException(Origin + " is not a gamed server of protocol 1.");
            return answer.Json();
        }

        /// <summary>Requests `GET /auth/providers`: show one button for each. The list is empty in `local` mode: show
        /// one button for the server itself. An older server does not send labels, so they are made of the
        /// names.</summary>
        public Task<IList<LoginProvider>> ProvidersAsync(CancellationToken cancel = default(CancellationToken)) =>
            Task.Run(() => ListedAsync(cancel), cancel);

        async Task<IList<LoginProvider>> ListedAsync(CancellationToken cancel)
        {
            try
            {
                Dictionary<string, object> value = await OfferedAsync("/auth/providers", cancel).ConfigureAwait(false);
                return Members.Objects(value, "providers").Select(entry => new LoginProvider(
                    Members.Of<string>(entry, "name"), Members.Of<string>(entry, "label"))).ToList().AsReadOnly();
            }
            catch (RefusedException error)
            {
                if (error.Code != "route_not_found")
                    throw;
            }
            Policy policy = await PolicyAsync(cancel).ConfigureAwait(false);
            return policy.Providers.Where(name => name != "").Select(name => new LoginProvider(
                name, name.Substring(0, 1).ToUpperInvariant() + name.Substring(1))).ToList().AsReadOnly();
        }

        /// <summary>
        /// Asks the server once whether the kept session still works; signs in if it does not, or if there is none.
        /// Returns true once there is a session, false if the sign-in has failed. IPerson.Problem shows every failure;
        /// no GamedError is thrown. If the server does not respond, the kept session counts, so that a Sync can play
        /// offline. Throws OperationCanceledException. A game does not need another call at its start.
        /// </summary>
        public Task<bool> EnsureSignedInAsync(IPerson person, SignInOptions how = null,
            CancellationToken cancel = default(CancellationToken)) =>
            Task.Run(() => EnsuredAsync(person, how, cancel), cancel);

        async Task<bool> EnsuredAsync(IPerson person, SignInOptions how, CancellationToken cancel)
        {
            bool kept = false;
            try
            {
                Credential known = await CredentialAsync(cancel).ConfigureAwait(false);
                kept = known != null;
                if (!kept || !await WorksAsync(known, cancel).ConfigureAwait(false))
                {
                    kept = false;
                    await SignInAsync(person, how, cancel).ConfigureAwait(false);
                }
                return true;
            }
            catch (GamedError error)
            {
                person.Problem(error);
                return kept && !(error is PlayerBlockedException);
            }
        }

        /// <summary>Asks the server once; returns false if only a sign-in helps. Throws GamedError without a
        /// response.</summary>
        async Task<bool> WorksAsync(Credential known, CancellationToken cancel)
        {
            try
            {
                await Only(known.PlayerId, 1).WhoamiAsync(cancel).ConfigureAwait(false);
            }
            catch (PlayerChangedException)
            {
            }
            catch (SignInRequiredException error)
            {
                if (!Errors.NeedsSignIn(error))
                    throw;
                return false;
            }
            return true;
        }

        /// <summary>Signs in through the browser; ends once the credential is on disk. The server ends the session that
        /// this device had before. Throws LoginFailedException or a subclass, GamedError,
        /// OperationCanceledException.</summary>
        public async Task<Credential> SignInAsync(IPerson person, SignInOptions how = null,
            CancellationToken cancel = default(CancellationToken)) =>
            await BeginSignIn(person, how).RunAsync(cancel).ConfigureAwait(false);

        /// <summary>Signs in in two steps: RunAsync; CancelAsync and Returned meanwhile.</summary>
        public SignIn BeginSignIn(IPerson person, SignInOptions how = null)
        {
            SignInOptions given = how ?? new SignInOptions();
            return running = new SignIn(wire, person, given, false, cancel => StartOfAsync(person, given, cancel),
                (call, cancel) => wire.CallAsync("POST", "/auth/login", call, cancel), KeepAsync);
        }

        async Task<Dictionary<string, object>> StartOfAsync(IPerson person, SignInOptions how,
            CancellationToken cancel)
        {
            string provider = how.Provider;
            IList<LoginProvider> providers = await ListedAsync(cancel).ConfigureAwait(false);
            if (provider == null && providers.Count == 1)
                provider = providers[0].Name;
            else if (provider == null && providers.Count > 1)
                provider = await ChosenAsync(person, providers, cancel).ConfigureAwait(false);
            return Start(provider, how.Adopt ? "adopt" : null);
        }

        static async Task<string> ChosenAsync(IPerson person, IList<LoginProvider> providers, CancellationToken cancel)
        {
            string chosen = await person.ChooseProviderAsync(providers, cancel).ConfigureAwait(false);
            if (chosen == null)
                throw Errors.Cancelled();
            return chosen;
        }

        /// <summary>Returns the body of `POST /auth/login`.</summary>
        Dictionary<string, object> Start(string provider, string intent)
        {
            var device = new Dictionary<string, object>
            {
                { "name", options.App }, { "version", options.Version },
                { "platform", Disk.IsWindows ? "windows" : Disk.IsMac ? "macos" : "linux" },
            };
            string name = Reported(options.DeviceName);
            if (name != "")
                device["device_name"] = name;
            var start = new Dictionary<string, object> { { "client", device } };
            string locale = PlayerTexts.Tag(options.Locale);
            if (locale != "")
                start["locale"] = locale;
            if (provider != null)
                start["provider"] = provider;
            if (intent != null)
                start["intent"] = intent;
            Credential known = held;
            if (known != null && known.SessionId == tooOld)
                start["confirm"] = true;
            return start;
        }

        /// <summary>Returns the part of a device's name that the server accepts: whole visible characters, at most
        /// 64.</summary>
        internal static string Reported(string name)
        {
            var kept = new StringBuilder();
            name = (name ?? "").Trim();
            for (int at = 0; at < name.Length; at++)
            {
                bool pair = char.IsHighSurrogate(name[at]) && at + 1 < name.Length && char.IsLowSurrogate(name[at + 1]);
                if (kept.Length + (pair ? 2 : 1) > 64)
                    break;
                if (pair)
                    kept.Append(name[at]).Append(name[++at]);
                else if (!char.IsSurrogate(name[at]) && !char.IsControl(name[at]))
                    kept.Append(name[at]);
            }
            return kept.ToString();
        }

        /// <summary>Passes the address with which the app was opened to the sign-in that runs; returns false if it does
        /// not belong to it.</summary>
        public bool Returned(string url)
        {
            SignIn begun = running;
            return begun != null && !begun.Ended && begun.Returned(url);
        }

        /// <summary>Cancels the sign-in that runs, for a Cancel button: it ends with LoginCancelledException.</summary>
        public Task CancelSignInAsync()
        {
            SignIn begun = running;
            return begun == null || begun.Ended ? Wire.Done : begun.CancelAsync();
        }

        /// <summary>
        /// Deletes the credential here, even if the server cannot be reached; returns true if the server has ended the
        /// session. `all` ends every session of the player; `others` ends all but this one and deletes nothing here
        /// (docs/protocol.md: Sessions).
        /// </summary>
        public Task<bool> SignOutAsync(string scope = "this", CancellationToken cancel = default(CancellationToken)) =>
            Task.Run(() => SignedOutAsync(scope, cancel), CancellationToken.None);

        async Task<bool> SignedOutAsync(string scope, CancellationToken cancel)
        {
            Credential kept;
            using (await store.LockAsync(CancellationToken.None).ConfigureAwait(false))
            {
                kept = Kept();
                if (scope != "others")
                    Forget();
            }
            return kept == null || await TellLogoutAsync(kept, scope, cancel).ConfigureAwait(false);
        }

        void Forget()
        {
            store.Delete();
            held = null;
        }

        /// <summary>Ends the session at the server; returns false if the server could not be reached.</summary>
        async Task<bool> TellLogoutAsync(Credential kept, string scope, CancellationToken cancel)
        {
            var body = new Dictionary<string, object>
            {
                { "refresh_credential", kept.RefreshCredential }, { "scope", scope },
            };
            var how = new Call { Json = body, Timeout = 5, Tries = 2 };
            try
            {
                await wire.CallAsync("POST", "/auth/session/logout", how, cancel).ConfigureAwait(false);
                return true;
            }
            catch (GamedError)
            {
                return false;
            }
        }

        /// <summary>Requests `GET /game/`: player, usage, limits, time (docs/protocol.md: Saves).</summary>
        public async Task<Dictionary<string, object>> WhoamiAsync(
            CancellationToken cancel = default(CancellationToken))
        {
            Answer answer = await GameAsync("GET", "/game/", new Call(), cancel).ConfigureAwait(false);
            Dictionary<string, object> summary = answer.Json();
            await NoteNameAsync(Members.Of<Dictionary<string, object>>(summary, "player"), cancel)
                .ConfigureAwait(false);
            return summary;
        }

        /// <summary>Stores the player's name with the credential, from where a Sync has it.</summary>
        async Task NoteNameAsync(IDictionary<string, object> player, CancellationToken cancel)
        {
            string name = Members.Maybe<string>(player, "name");
            Credential known = held;
            if (known != null && known.PlayerName == name)
                return;  // without the lock, which a refresh may hold for long
            try
            {
                using (await store.LockAsync(cancel).ConfigureAwait(false))
                {
                    Credential kept = Kept();
                    if (kept == null || kept.PlayerId != Members.Maybe<string>(player, "id") || kept.PlayerName == name)
                        return;
                    held = kept.Named(name);
                    store.Write(held.ToJson());
                }
            }
            catch (LocalDamagedException)
            {
                // the next start tries again
            }
        }

        /// <summary>Changes the name that games show, null to remove it; returns the name as the server has stored
        /// it.</summary>
        public async Task<string> SetNameAsync(string name, CancellationToken cancel = default(CancellationToken))
        {
            var body = new Dictionary<string, object> { { "name", name } };
            Answer answer = await GameAsync("PATCH", "/auth/player", new Call { Json = body }, cancel)
                .ConfigureAwait(false);
            var changed = Members.Of<Dictionary<string, object>>(answer.Json(), "player");
            await NoteNameAsync(changed, cancel).ConfigureAwait(false);
            return Members.Maybe<string>(changed, "name");
        }

        /// <summary>Requests a ticket, which tells another server for about a minute who is playing. `audience` is the
        /// name of that server, `nonce` what it has sent for this connection, or null. Request one for each
        /// connection (docs/protocol.md: Tickets).</summary>
        public Task<string> TicketAsync(string audience, string nonce = null,
            CancellationToken cancel = default(CancellationToken))
        {
            var body = new Dictionary<string, object> { { "audience", audience } };
            if (nonce != null)
                body["nonce"] = nonce;
            return Then(GameAsync("POST", "/auth/tickets", new Call { Json = body }, cancel),
                answer => Members.Of<string>(answer.Json(), "ticket"));
        }

        // -- the account --

        /// <summary>Lists the devices on which the player is signed in, last used first.</summary>
        public Task<IList<DeviceSession>> ListSessionsAsync(CancellationToken cancel = default(CancellationToken)) =>
            Then(GameAsync("GET", "/auth/sessions", new Call(), cancel), answer => (IList<DeviceSession>)
                Members.Objects(answer.Json(), "sessions").Select(DeviceSession.Of).ToList().AsReadOnly());

        /// <summary>Signs one device out; if it is this one, the credential here is deleted, too. Throws
        /// NotFoundException.</summary>
        public Task EndSessionAsync(string sessionId, CancellationToken cancel = default(CancellationToken)) =>
            Task.Run(async () =>
            {
                if (!Segments.IsMatch(sessionId ?? ""))
                    throw new NotFoundException(new Failure("session_not_found",
                        "That device is not signed in any more."));
                await DeleteOnceAsync("/auth/sessions/" + sessionId, cancel).ConfigureAwait(false);
                await ForgetAsync(sessionId).ConfigureAwait(false);
            }, cancel);

        /// <summary>Lists the accounts that sign in as this player, oldest first.</summary>
        public Task<IList<LinkedIdentity>> ListIdentitiesAsync(CancellationToken cancel = default(CancellationToken)) =>
            Then(GameAsync("GET", "/auth/identities", new Call(), cancel), answer => (IList<LinkedIdentity>)
                Members.Objects(answer.Json(), "identities").Select(LinkedIdentity.Of).ToList().AsReadOnly());

        /// <summary>Links another account through the browser, so that both sign in as this player; returns the
        /// provider in the server's spelling. Throws SignInRequiredException with `reauthentication_required` if the
        /// sign-in is older than ten minutes, LoginFailedException or a subclass.</summary>
        public async Task<string> LinkAsync(IPerson person, string provider, SignInOptions how = null,
            CancellationToken cancel = default(CancellationToken))
        {
            SignIn begun = BeginLink(person, provider, how);
            await begun.RunAsync(cancel).ConfigureAwait(false);
            return begun.Linked;
        }

        /// <summary>Links in two steps: RunAsync; CancelAsync and Returned meanwhile.</summary>
        public SignIn BeginLink(IPerson person, string provider, SignInOptions how = null)
        {
            if (provider == null)
                throw new ArgumentNullException("provider");
            return running = new SignIn(wire, person, how ?? new SignInOptions(), true,
                cancel => Task.FromResult(Start(provider, "link")),
                (call, cancel) => GameAsync("POST", "/auth/login", call, cancel),
                (complete, cancel) => CredentialAsync(cancel));
        }

        /// <summary>Unlinks an account; throws RefusedException with `last_identity` if it is the only one, and
        /// SignInRequiredException with `reauthentication_required` if a recovery code signed in.</summary>
        public async Task UnlinkAsync(string provider, CancellationToken cancel = default(CancellationToken))
        {
            if (!Segments.IsMatch(provider ?? ""))
                throw new RefusedException(new Failure("provider_unknown",
                    "This server does not have that way to sign in."));
            await GameAsync("DELETE", "/auth/identities/" + provider, new Call(), cancel).ConfigureAwait(false);
        }

        /// <summary>Erases the player with saves, sessions and linked accounts, and the credential here. Throws
        /// SignInRequiredException with `reauthentication_required` if the sign-in is older than ten minutes.</summary>
        public Task DeletePlayerAsync(CancellationToken cancel = default(CancellationToken)) =>
            Task.Run(async () =>
            {
                await ForgetAsync(await DeleteOnceAsync("/auth/player", cancel).ConfigureAwait(false))
                    .ConfigureAwait(false);
            }, cancel);

        /// <summary>Sends a DELETE that may end this session; a repetition that finds it ended has succeeded. Returns
        /// the session that asked.</summary>
        async Task<string> DeleteOnceAsync(string path, CancellationToken cancel)
        {
            string session = null;
            bool lost = false;
            try
            {
                await InNameAsync(async used =>
                {
                    session = used.SessionId;
                    try
                    {
                        return await wire.CallAsync("DELETE", path, new Call { Bearer = used.AccessToken }, cancel)
                            .ConfigureAwait(false);
                    }
                    catch (GamedError error)
                    {
                        lost = lost || error.AnswerLostBefore;
                        throw;
                    }
                }, cancel).ConfigureAwait(false);
            }
            catch (GamedError error)
            {
                if (!lost || !(Errors.NeedsSignIn(error) || error is NotFoundException))
                    throw;
            }
            return session;
        }

        /// <summary>Deletes the credential of a session that has ended, but not a newer one.</summary>
        async Task ForgetAsync(string session)
        {
            using (await store.LockAsync(CancellationToken.None).ConfigureAwait(false))
            {
                Credential kept = Kept();
                if (kept != null && kept.SessionId == session)
                    Forget();
            }
        }

        /// <summary>Erases all saves of the player with their history, on every device that plays online. Throws
        /// ConflictException if a device has saved meanwhile, and SignInRequiredException with
        /// `reauthentication_required` if a recovery code signed in: nothing was erased then.</summary>
        public async Task EraseSavesAsync(CancellationToken cancel = default(CancellationToken))
        {
            Answer summary = await GameAsync("GET", "/game/", new Call(), cancel).ConfigureAwait(false);
            string etag = summary.Header("ETag");
            if (etag == "")
                throw new NotGamedException("The server's answer lacks 'ETag'.");
            await GameAsync("DELETE", "/game/", new Call { Headers = Base.Condition(etag) }, cancel)
                .ConfigureAwait(false);
        }

        /// <summary>Writes all kept versions of the player's saves into a zip file, whole or not at all; returns its
        /// size in bytes. An interrupted download continues where it was. Throws LocalDamagedException if the file
        /// cannot be written, and SignInRequiredException with `reauthentication_required` if a recovery code signed
        /// in.</summary>
        public Task<long> ExportAsync(string path, CancellationToken cancel = default(CancellationToken)) =>
            Task.Run(() => ExportedAsync(path, cancel), cancel);

        async Task<long> ExportedAsync(string path, CancellationToken cancel)
        {
            try
            {
                return await new Export(this, path).RunAsync(cancel).ConfigureAwait(false);
            }
            catch (Exception error)
            {
                if (Errors.OfDisk(error) == null)
                    throw;
                string detail = "The file cannot be written. Choose another folder, or make space on the disk.";
                throw new LocalDamagedException(new Failure("local_disk", detail, error));
            }
        }

        // -- saves --

        /// <summary>Lists every slot that has a save.</summary>
        public async Task<IList<SaveInfo>> ListSavesAsync(CancellationToken cancel = default(CancellationToken)) =>
            (await ChangesAsync(null, 0, cancel).ConfigureAwait(false)).Saves;

        /// <summary>
        /// Requests the changes since the cursor of an earlier result; all slots without a cursor, or if the server no
        /// longer knows it. The oldest changes come first, at most 256 slots or `limit`; if there are more, ask again
        /// with the new cursor. If nothing has changed, the server waits up to `wait` seconds (at most 25) for a change
        /// before it responds.
        /// </summary>
        public Task<Changes> ChangesAsync(string since = null, int wait = 0,
            CancellationToken cancel = default(CancellationToken), int? limit = null)
        {
            string path = WithQuery("/game/saves", "since", since == null ? null : Uri.EscapeDataString(since), limit);
            var how = new Call { Wait = wait };
            if (wait > 0)
                how.Headers["Prefer"] = "wait=" + wait.ToString(CultureInfo.InvariantCulture);
            return Then(GameAsync("GET", path, how, cancel), answer => Changes.Of(answer.Json(), since == null));
        }

        /// <summary>Reads the current bytes and checks their digest; returns null if the slot was never written. Throws
        /// DeletedException, and NotModifiedException if `unless` is the current version.</summary>
        public async Task<Save> GetAsync(string slot, Base unless = null,
            CancellationToken cancel = default(CancellationToken))
        {
            var how = new Call { Check = Saves.CheckDigest, Limit = Wire.MaxSaveBytes };
            if (unless != null)
                how.Headers["If-None-Match"] = unless.ToString();
            try
            {
                return Save.Of(await GameAsync("GET", Saves.PathOf(slot), how, cancel).ConfigureAwait(false));
            }
            catch (NotFoundException error)
            {
                if (error is DeletedException)
                    throw;
                return null;
            }
        }

        /// <summary>Writes a save that is based on `on`: a save that was read, its etag, Base.Whatever, null for a new
        /// slot. Ends when the server has it on disk. Throws ConflictException if the slot holds another version; the
        /// server then keeps both. Sending the same bytes twice is one write. Do not change `data` meanwhile.</summary>
        public Task<SaveInfo> PutAsync(string slot, byte[] data, Base on, string contentType = Bytes,
            IDictionary<string, object> meta = null, CancellationToken cancel = default(CancellationToken))
        {
            string path = Saves.PathOf(slot);
            if (!Regex.IsMatch(contentType, @"\A[!-~][ -~]{0,255}\z"))
                throw new RefusedException(new Failure("invalid_content_type", "The type of a save is a media type."));
            var how = new Call { Headers = Base.Condition(on), Body = data };
            how.Headers["Content-Type"] = contentType;
            if (meta != null)
                how.Headers["Save-Meta"] = Json.Write(Saves.Plain(meta));
            return Task.Run(async () =>
            {
                how.Headers["Content-Digest"] = Saves.DigestField(data);
                return SaveInfo.Of((await GameAsync("PUT", path, how, cancel).ConfigureAwait(false)).Json());
            }, cancel);
        }

        /// <summary>Deletes the version that was read; its history stays on the server for a while.</summary>
        public async Task DeleteAsync(string slot, Base on, CancellationToken cancel = default(CancellationToken))
        {
            if (on == null)
                throw new ArgumentNullException("on");
            try
            {
                await GameAsync("DELETE", Saves.PathOf(slot), new Call { Headers = Base.Condition(on) }, cancel)
                    .ConfigureAwait(false);
            }
            catch (GamedError error)
            {
                bool gone = (error is DeletedException || error is ConflictException) && error.Code == "deleted";
                if (!gone || !error.AnswerLostBefore)  // else the try without a response has deleted it
                    throw;
            }
        }

        /// <summary>Changes all these slots, or none. Sends the bytes that the server does not have yet. Returns one
        /// result for each write, in their order. Throws ConflictException, whose Slots have the sides of each slot
        /// that holds another version. Sending the same writes twice is one commit.</summary>
        public Task<IList<CommitResult>> CommitAsync(IEnumerable<SlotWrite> writes,
            CancellationToken cancel = default(CancellationToken))
        {
            SlotWrite[] all = writes.ToArray();
            return Task.Run(() => CommittedAsync(all, cancel), cancel);
        }

        async Task<IList<CommitResult>> CommittedAsync(SlotWrite[] writes, CancellationToken cancel)
        {
            List<object> entries = writes.Select(write => (object)write.ToJson()).ToList();
            var blobs = new Dictionary<string, byte[]>();
            foreach (SlotWrite write in writes)
                if (write.Data != null)
                    blobs[write.Sha256] = write.Data;
            foreach (KeyValuePair<string, byte[]> blob in blobs)
                if (blob.Value.Length <= AskFirstBytes || !await HasBlobAsync(blob.Key, cancel).ConfigureAwait(false))
                    await StageAsync(blob.Key, blob.Value, cancel).ConfigureAwait(false);
            var body = new Dictionary<string, object> { { "writes", entries } };
            for (bool again = true; ; again = false)
            {
                try
                {
                    Answer answer = await GameAsync("POST", "/game/commit", new Call { Json = body }, cancel)
                        .ConfigureAwait(false);
                    return Members.Objects(answer.Json(), "saves").Select(CommitResult.Of).ToList().AsReadOnly();
                }
                catch (RefusedException error)
                {
                    if (error.Code != "blob_missing" || !again)
                        throw;
                    string[] missing = Members.List(error.Problem, "missing").OfType<string>()
                        .Where(blobs.ContainsKey).ToArray();
                    foreach (string sha256 in missing.Length > 0 ? missing : blobs.Keys.ToArray())
                        await StageAsync(sha256, blobs[sha256], cancel).ConfigureAwait(false);
                }
            }
        }

        async Task<bool> HasBlobAsync(string sha256, CancellationToken cancel)
        {
            try
            {
                await GameAsync("HEAD", "/game/blobs/" + sha256, new Call { Tries = 1 }, cancel).ConfigureAwait(false);
                return true;
            }
            catch (GamedError)
            {
                return false;  // after other errors than 404 the PUT that follows gets a better one
            }
        }

        Task StageAsync(string sha256, byte[] data, CancellationToken cancel)
        {
            var how = new Call { Body = data };
            how.Headers["Content-Type"] = Bytes;
            how.Headers["Content-Digest"] = Saves.DigestField(data);
            return GameAsync("PUT", "/game/blobs/" + sha256, how, cancel);
        }

        // -- history --

        /// <summary>Requests the kept versions of a slot, newest first: also of a deleted slot, and conflict copies. A
        /// long history needs one request for each 100 versions, or `limit`; the requests after the first end once
        /// `downTo` is reached.</summary>
        public async Task<IList<SaveVersion>> VersionsAsync(string slot,
            CancellationToken cancel = default(CancellationToken), long downTo = 1, int? limit = null)
        {
            VersionsPage page = await VersionsPageAsync(slot, null, limit, cancel).ConfigureAwait(false);
            List<SaveVersion> found = page.Versions.ToList();
            while (page.More && found.Last().Version > downTo)
            {
                page = await VersionsPageAsync(slot, found.Last().Version, limit, cancel).ConfigureAwait(false);
                found.AddRange(page.Versions);
            }
            return found.AsReadOnly();
        }

        /// <summary>Requests the newest versions that are older than `before`: at most 100, or `limit`.</summary>
        public Task<VersionsPage> VersionsPageAsync(string slot, long? before = null, int? limit = null,
            CancellationToken cancel = default(CancellationToken))
        {
            string number = before?.ToString(CultureInfo.InvariantCulture);
            string path = WithQuery(Saves.PathOf(slot) + "/versions", "before", number, limit);
            return Then(GameAsync("GET", path, new Call(), cancel), answer => VersionsPage.Of(answer.Json(), before));
        }

        /// <summary>Appends the query parameters that are not null.</summary>
        static string WithQuery(string path, string name, string value, int? limit)
        {
            if (value != null)
                path += "?" + name + "=" + value;
            if (limit != null)
                path += (value == null ? "?" : "&") + "limit=" + limit.Value.ToString(CultureInfo.InvariantCulture);
            return path;
        }

        /// <summary>Reads the bytes of one version and checks their digest. Throws NotFoundException if the server no
        /// longer keeps it.</summary>
        public Task<Save> VersionAsync(string slot, long number, CancellationToken cancel = default(CancellationToken))
        {
            var how = new Call { Check = Saves.CheckDigest, Limit = Wire.MaxSaveBytes };
            return Then(GameAsync("GET", Saves.VersionPath(slot, number), how, cancel), Save.Of);
        }

        /// <summary>Makes an old version or a conflict copy current, based on `on`: null undeletes a slot.</summary>
        public Task<SaveInfo> RestoreAsync(string slot, long number, Base on,
            CancellationToken cancel = default(CancellationToken))
        {
            var how = new Call { Headers = Base.Condition(on) };
            return Then(GameAsync("POST", Saves.VersionPath(slot, number) + "/restore", how, cancel),
                answer => SaveInfo.Of(answer.Json()));
        }

        /// <summary>Deletes a conflict copy, once the player has chosen. A copy that is deleted already is not an
        /// error.</summary>
        public async Task DismissAsync(string slot, long number, CancellationToken cancel = default(CancellationToken))
        {
            try
            {
                await GameAsync("DELETE", Saves.VersionPath(slot, number), new Call(), cancel).ConfigureAwait(false);
            }
            catch (NotFoundException)
            {
            }
        }

        static async Task<T> Then<T>(Task<Answer> answer, Func<Answer, T> read) =>
            read(await answer.ConfigureAwait(false));

        // -- staying signed in --

        /// <summary>Returns a client that acts for this player only: it throws PlayerChangedException once another
        /// player has signed in here. `tries`: 0 for the number of this client.</summary>
        public GamedClient Only(string playerId, int tries = 0) => new GamedClient(this, playerId, tries);

        /// <summary>Sends a request in the player's name; repeats it once with a newer token if the server rejects the
        /// first.</summary>
        Task<Answer> GameAsync(string method, string path, Call how, CancellationToken cancel) =>
            Task.Run(() => InNameAsync(used =>
            {
                how.Bearer = used.AccessToken;
                return wire.CallAsync(method, path, how, cancel);
            }, cancel), cancel);

        internal async Task<T> InNameAsync<T>(Func<Credential, Task<T>> request, CancellationToken cancel)
        {
            for (string stale = null; ;)
            {
                Credential used = await LiveAsync(stale, cancel).ConfigureAwait(false);
                try
                {
                    return await request(used).ConfigureAwait(false);
                }
                catch (SignInRequiredException error)
                {
                    if (!await RenewableAsync(error, used, cancel).ConfigureAwait(false) || stale != null)
                        throw;
                    stale = used.AccessToken;
                }
            }
        }

        /// <summary>Returns whether another token may work. Deletes the credential of an ended session, but not a newer
        /// one.</summary>
        async Task<bool> RenewableAsync(SignInRequired error, Credential used, CancellationToken cancel)
        {
            if (error.Code == "reauthentication_required")
                tooOld = used.SessionId;
            if (!Errors.Forgets(error))
                return Errors.Renews(error);
            using (await store.LockAsync(cancel).ConfigureAwait(false))
            {
                Credential kept = Kept();
                if (kept != null && kept.SessionId != used.SessionId)
                    return true;
                Forget();
            }
            return false;
        }

        /// <summary>Returns a credential whose access token has not expired and is not `stale`; refreshes if
        /// needed.</summary>
        async Task<Credential> LiveAsync(string stale, CancellationToken cancel)
        {
            // A client for one player reads each time: it does not notice otherwise that the first one has signed out.
            Credential known = (player == null ? held : null) ?? await CredentialAsync(cancel).ConfigureAwait(false);
            if (known == null)
                throw Errors.SignedOut();
            if (player != null && player != known.PlayerId)
                throw new PlayerChangedException();
            if (Works(known, stale))
                return known;
            using (await store.LockAsync(cancel).ConfigureAwait(false))
            {
                // the first holder of the lock refreshes, the others read its result
                Credential kept = Kept();
                if (kept == null)
                    held = null;
                if (kept == null)
                    throw Errors.SignedOut();
                if (kept.PlayerId != known.PlayerId)
                    throw new PlayerChangedException();
                if (!Works(kept, stale))
                    kept = await RefreshAsync(kept, cancel).ConfigureAwait(false);
                return held = kept;
            }
        }

        bool Works(Credential credential, string stale) =>
            credential.Fresh(options.Now()) && credential.AccessToken != stale;

        /// <summary>Refresh; the caller holds the lock. A repetition is safe: until the new pair is used, the server
        /// returns it again.</summary>
        async Task<Credential> RefreshAsync(Credential kept, CancellationToken cancel)
        {
            var body = new Dictionary<string, object> { { "refresh_credential", kept.RefreshCredential } };
            Answer answer;
            try
            {
                answer = await wire.CallAsync("POST", "/auth/session/refresh", new Call { Json = body }, cancel)
                    .ConfigureAwait(false);
            }
            catch (SignInRequiredException error)
            {
                if (Errors.Forgets(error))
                    Forget();
                throw;
            }
            Credential renewed = kept.Renewed(answer.Json(), options.Now());
            store.Write(renewed.ToJson());  // on disk before its first use, which ends the old pair
            return renewed;
        }

        /// <summary>Stores the result of a finished sign-in (docs/protocol.md: Collect), or of `gamed players token`
        /// and `gamed dev` for a game's own tests; on disk before its first use.</summary>
        public Task<Credential> KeepAsync(IDictionary<string, object> complete,
            CancellationToken cancel = default(CancellationToken)) =>
            Task.Run(() => KeepHereAsync(complete, cancel), cancel);

        async Task<Credential> KeepHereAsync(IDictionary<string, object> complete, CancellationToken cancel)
        {
            Credential fresh = Credential.Of(Origin, complete, options.Now()), before;
            using (await store.LockAsync(cancel).ConfigureAwait(false))
            {
                before = Kept();
                store.Write(fresh.ToJson());
                held = fresh;
            }
            if (before != null && before.SessionId != fresh.SessionId)
                await TellLogoutAsync(before, "this", CancellationToken.None).ConfigureAwait(false);
            return fresh;
        }
    }

    /// <summary>One device on which the player is signed in. Instants are RFC 3339, by the server's clock.</summary>
    public sealed partial class DeviceSession
    {
        IDictionary<string, object> members;

        DeviceSession()
        {
        }

        /// <summary>`ses_...`, for <see cref="GamedClient.EndSessionAsync"/>.</summary>
        public string SessionId { get; private set; }

        /// <summary>True for the session of this device.</summary>
        public bool Current { get; private set; }

        /// <summary>The time of the sign-in.</summary>
        public string CreatedAt { get; private set; }

        /// <summary>The time of the last sign-in or refresh.</summary>
        public string LastUsedAt { get; private set; }

        /// <summary>The time of its end without another refresh.</summary>
        public string ExpiresAt { get; private set; }

        /// <summary>A name of the policy, or `local`.</summary>
        public string Provider { get; private set; }

        /// <summary>The name of the device, else the game's name, or null.</summary>
        public string Device { get; private set; }

        internal static DeviceSession Of(IDictionary<string, object> value)
        {
            var client = Members.Maybe<Dictionary<string, object>>(value, "client");
            return new DeviceSession
            {
                members = value,
                SessionId = Members.Of<string>(value, "session_id"),
                Current = Members.Of<bool>(value, "current"),
                CreatedAt = Members.Maybe<string>(value, "created_at") ?? "",
                LastUsedAt = Members.Maybe<string>(value, "last_used_at") ?? "",
                ExpiresAt = Members.Maybe<string>(value, "expires_at") ?? "",
                Provider = Members.Maybe<string>(value, "provider") ?? "",
                Device = Members.Maybe<string>(client, "device_name") ?? Members.Maybe<string>(client, "name"),
            };
        }

        /// <summary>Returns the members as the server sent them.</summary>
        public IDictionary<string, object> ToJson() => members;
    }

    /// <summary>One account that signs in as the player. Instants are RFC 3339, by the server's clock.</summary>
    public sealed partial class LinkedIdentity
    {
        IDictionary<string, object> members;

        LinkedIdentity()
        {
        }

        /// <summary>A name of the policy, or `local`.</summary>
        public string Provider { get; private set; }

        /// <summary>The time of the first sign-in, or of the link.</summary>
        public string LinkedAt { get; private set; }

        /// <summary>The time of the last sign-in.</summary>
        public string LastUsedAt { get; private set; }

        /// <summary>True if the server still has this provider.</summary>
        public bool CanSignIn { get; private set; }

        internal static LinkedIdentity Of(IDictionary<string, object> value) =>
            new LinkedIdentity
            {
                members = value,
                Provider = Members.Of<string>(value, "provider"),
                LinkedAt = Members.Maybe<string>(value, "linked_at") ?? "",
                LastUsedAt = Members.Maybe<string>(value, "last_used_at") ?? "",
                CanSignIn = Members.Maybe<bool?>(value, "can_sign_in") ?? true,
            };

        /// <summary>Returns the members as the server sent them.</summary>
        public IDictionary<string, object> ToJson() => members;
    }

    /// <summary>The ways to sign in at a server.</summary>
    public sealed partial class Policy
    {
        internal Policy(string mode, IList<string> providers)
        {
            Mode = mode;
            Providers = providers;
        }

        /// <summary>`oauth` or `local`.</summary>
        public string Mode { get; private set; }

        /// <summary>The names of the providers: show one button for each; in `local` mode one for the server
        /// itself.</summary>
        public IList<string> Providers { get; private set; }
    }
}
