// The client as a component of Unity: sign in, save and load from a script or from the inspector, without threads.
//
//     public GamedBehaviour gamed;
//
//     async void Start()                                          // or, in a coroutine:
//     {                                                           //     GamedWait<bool> signIn = gamed.SignIn();
//         if (!await gamed.SignInAsync())                         //     yield return signIn;
//             return;                                             //     if (!signIn.Value) yield break;
//         byte[] save = await gamed.LoadAsync("auto");            // null: never saved
//         await gamed.SaveAsync("auto", bytes);                   // on this device's disk when it ends
//     }
//
// Put it on one object that stays (DontDestroyOnLoad). Its events are raised on Unity's main thread.

using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;
using UnityEngine;
using UnityEngine.Events;

namespace Gamed
{
    /// <summary>An event of the inspector with a text: a slot's name, or a text for the player.</summary>
    [Serializable]
    public class GamedTextEvent : UnityEvent<string>
    {
    }

    /// <summary>The result of a call in a coroutine: `yield return` it, then read Error and Value.</summary>
    public sealed class GamedWait<T> : CustomYieldInstruction
    {
        readonly Task<T> task;

        internal GamedWait(Task<T> task)
        {
            this.task = task;
        }

        /// <summary>True until the call has ended.</summary>
        public override bool keepWaiting
        {
            get { return !task.IsCompleted; }
        }

        /// <summary>The error, with a Detail for the player; null if the call succeeded.</summary>
        public GamedError Error
        {
            get
            {
                Exception error = task.IsFaulted ? task.Exception.InnerException : null;
                return error as GamedError ?? Errors.OfDisk(error);
            }
        }

        /// <summary>The result; the default of its type after an Error. Read it when the wait has ended.</summary>
        public T Value
        {
            get { return Error == null ? task.GetAwaiter().GetResult() : default(T); }
        }
    }

    /// <summary>One server, the player who is signed in there, and their saves, which also work offline.</summary>
    [AddComponentMenu("Gamed/Gamed")]
    [DisallowMultipleComponent]
    public class GamedBehaviour : MonoBehaviour
    {
        [Tooltip("The server's address, as the player types it. A script may set it before the sign-in.")]
        [SerializeField] string server = "";

        [Tooltip("The game's name: its sign-in and saves are kept under it. Empty: the product's name.")]
        [SerializeField] string app = "";

        [Tooltip("On phones: the address with which the browser opens this app again.")]
        [SerializeField] string returnUri = "";

        [Tooltip("The game's language, such as de or pt-BR, for the sign-in. Empty: the system's.")]
        [SerializeField] string locale = "";

        [Tooltip("Sign in at the start, without a script.")]
        [SerializeField] bool signInAtStart = false;

        [SerializeField] UnityEvent onSignedIn = new UnityEvent();
        [SerializeField] GamedTextEvent onProblem = new GamedTextEvent();
        [SerializeField] GamedTextEvent onChanged = new GamedTextEvent();
        [SerializeField] GamedTextEvent onConflict = new GamedTextEvent();

        /// <summary>The longest time that the end of the game waits for the disk.</summary>
        const int LastMilliseconds = 5000;

        readonly CancellationTokenSource leaving = new CancellationTokenSource();
        SynchronizationContext main;
        int mainThread;
        IPerson person;
        GamedClient client;
        Sync sync;
        Task watching = Wire.Done;
        CancellationTokenSource closing;
        bool quitting;

        /// <summary>Raised once there is a session; a script may load and save.</summary>
        public event Action SignedIn;

        /// <summary>Raised after a failure; show its Detail. The person of a sign-in has shown it already.</summary>
        public event Action<GamedError> ProblemFound;

        /// <summary>Raised when a slot has changed: State is, for example, `newer`.</summary>
        public event Action<SyncStatus> Changed;

        /// <summary>Raised when two devices have changed a save: show both sides, and let the player choose.</summary>
        public event Action<SyncConflict> ConflictFound;

        /// <summary>The address that the player typed. Set it before the first call.</summary>
        public string Server
        {
            get { return server; }
            set { server = value; }
        }

        /// <summary>The game's name. Set it before the first call.</summary>
        public string App
        {
            get { return app == "" ? NameOf(Application.productName) : app; }
            set { app = value; }
        }

        /// <summary>The return address on phones, such as `com.example.game:/signin`; empty: the player types a
        /// code.</summary>
        public string ReturnUri
        {
            get { return returnUri; }
            set { returnUri = value; }
        }

        /// <summary>The game's language, such as `de` or `pt-BR`, for the pages and dialogs of a sign-in; empty: the
        /// system's.</summary>
        public string Locale
        {
            get { return locale == "" ? CultureInfo.CurrentUICulture.Name : locale; }
            set { locale = value; }
        }

        /// <summary>The dialogs of the sign-in, called on the main thread: by default a GamedDialog of this
        /// object.</summary>
        public IPerson Person
        {
            get
            {
                if (person == null)
                {
                    GamedDialog dialog = Dialog() ?? gameObject.AddComponent<GamedDialog>();
                    dialog.Locale = Locale;
                    person = dialog;
                }
                return person;
            }
            set { person = value; }
        }

        /// <summary>The client, for functions that this component does not have. Throws UntrustedAddressException for
        /// an invalid address of the server.</summary>
        public GamedClient Client
        {
            get
            {
                if (client == null)
                    client = new GamedClient(server, new GamedOptions
                    {
                        App = App, Version = NameOf(Application.version), DeviceName = SystemInfo.deviceName,
                        Locale = Locale,
                        Folder = Application.isMobilePlatform ? Application.persistentDataPath : null,
                    });
                return client;
            }
        }

        /// <summary>The saves of the player; null before the sign-in.</summary>
        public Sync Sync
        {
            get { return sync; }
        }

        // -- for `await` --

        /// <summary>Signs in, unless the player is signed in; returns true once there is a session, also without a
        /// network. The player sees every failure; none is thrown.</summary>
        public async Task<bool> SignInAsync()
        {
            var shown = new OnMainThread(this, Person);
            bool signedIn = false;
            try
            {
                signedIn = await Client.EnsureSignedInAsync(shown, How(), leaving.Token)
                    && await OpenedAsync();
            }
            catch (OperationCanceledException)
            {
                return false;
            }
            catch (Exception error)
            {
                GamedError problem = error as GamedError ?? Errors.OfDisk(error);
                if (problem == null)
                    throw;
                shown.Problem(problem);
            }
            Run(() => Finished(signedIn));
            return signedIn;
        }

        /// <summary>Ends a sign-in that runs, for a Cancel button.</summary>
        public Task CancelSignInAsync()
        {
            return client == null ? Wire.Done : client.CancelSignInAsync();
        }

        /// <summary>Reads the newest bytes of a slot; returns null if it was never saved. Throws NotKnownException on a
        /// device that was never online, DeletedException, and other kinds of GamedError.</summary>
        public async Task<byte[]> LoadAsync(string slot)
        {
            Save save = await Opened().ReadAsync(slot);
            return save == null ? null : save.Data;
        }

        /// <summary>Saves on this device's disk when it ends, and at the server once there is a network. `meta` is for
        /// menus, such as a title.</summary>
        public Task SaveAsync(string slot, byte[] data, IDictionary<string, object> meta = null)
        {
            return Opened().WriteAsync(slot, data, meta);
        }

        /// <summary>Signs out; saves that the server does not have yet wait on this device.</summary>
        public async Task SignOutAsync()
        {
            await Client.SignOutAsync();
            await CloseAsync();
        }

        // -- for coroutines --

        /// <summary>SignInAsync for a coroutine.</summary>
        public GamedWait<bool> SignIn()
        {
            return new GamedWait<bool>(SignInAsync());
        }

        /// <summary>LoadAsync for a coroutine.</summary>
        public GamedWait<byte[]> Load(string slot)
        {
            return new GamedWait<byte[]>(LoadAsync(slot));
        }

        /// <summary>SaveAsync for a coroutine; its Value is true.</summary>
        public GamedWait<bool> Save(string slot, byte[] data, IDictionary<string, object> meta = null)
        {
            return new GamedWait<bool>(DoneAsync(() => SaveAsync(slot, data, meta)));
        }

        /// <summary>SignOutAsync for a coroutine; its Value is true.</summary>
        public GamedWait<bool> SignOut()
        {
            return new GamedWait<bool>(DoneAsync(SignOutAsync));
        }

        static async Task<bool> DoneAsync(Func<Task> work)
        {
            await work();
            return true;
        }

        // -- Unity's own --

        void Awake()
        {
            main = SynchronizationContext.Current;
            mainThread = Thread.CurrentThread.ManagedThreadId;
        }

        void OnEnable()
        {
            Application.deepLinkActivated += Returned;
        }

        async void Start()
        {
            if (signInAtStart)
                await SignInAsync();
        }

        void OnDisable()
        {
            Application.deepLinkActivated -= Returned;
        }

        /// <summary>Waits for the disk, because a phone may end a paused app.</summary>
        void OnApplicationPause(bool paused)
        {
            if (paused && sync != null)
                Task.WaitAny(new[] { sync.WrittenAsync() }, LastMilliseconds);
        }

        /// <summary>Waits for the disk. Other objects may save after this one; Unity destroys the objects once all of
        /// them have had this call.</summary>
        void OnApplicationQuit()
        {
            quitting = true;
            OnApplicationPause(true);
        }

        void OnDestroy()
        {
            leaving.Cancel();
            if (sync != null && quitting)                         // the engine need not wait for a thread
                Task.WaitAny(new[] { sync.CloseAsync() }, LastMilliseconds);
            else if (sync != null)
                sync.Dispose();                                   // in the background: no frame waits for the disk
            sync = null;
        }

        /// <summary>Handles the address with which the browser has opened this app.</summary>
        void Returned(string url)
        {
            if (client != null)
                client.Returned(url);
        }

        // -- inside --

        SignInOptions How()
        {
            return new SignInOptions
            {
                OpenBrowser = OpenOnMainThread, ReturnUri = returnUri == "" ? null : returnUri,
                Loopback = !Application.isMobilePlatform,
            };
        }

        bool OpenOnMainThread(string url)
        {
            Run(() => Application.OpenURL(url));
            return true;
        }

        Sync Opened()
        {
            if (sync == null)
                throw Errors.SignedOut();
            return sync;
        }

        /// <summary>Opens the saves of the player who is signed in, and waits for the first list.</summary>
        async Task<bool> OpenedAsync()
        {
            Credential credential = await Client.CredentialAsync(leaving.Token);
            if (credential == null)
                return false;
            if (sync != null && sync.PlayerId != credential.PlayerId)
                await CloseAsync();
            if (sync == null)
                sync = await Gamed.Sync.OpenAsync(Client, null, leaving.Token);
            if (watching.IsCompleted)
            {
                closing = CancellationTokenSource.CreateLinkedTokenSource(leaving.Token);
                watching = WatchAsync(sync, closing.Token);
            }
            await sync.ReadyAsync(5, leaving.Token);
            return true;
        }

        async Task CloseAsync()
        {
            Sync closed = sync;
            sync = null;
            if (closed == null)
                return;
            closing.Cancel();
            await watching;
            await closed.CloseAsync();
        }

        /// <summary>Runs the Sync until the session ends.</summary>
        async Task WatchAsync(Sync watched, CancellationToken stop)
        {
            try
            {
                await watched.RunAsync(status => Run(() => Show(watched, status)), stop);
            }
            catch (GamedError error)
            {
                Run(() => Raise(error));
            }
        }

        async void Show(Sync watched, SyncStatus status)
        {
            if (Changed != null)
                Changed(status);
            onChanged.Invoke(status.Slot);
            if (status.State != SyncStatus.Conflict)
                return;
            try
            {
                SyncConflict found = (await watched.ConflictsAsync()).FirstOrDefault(each => each.Slot == status.Slot);
                if (found == null)
                    return;
                if (ConflictFound != null)
                    ConflictFound(found);
                onConflict.Invoke(found.Slot);
            }
            catch (GamedError error)
            {
                Raise(error);
            }
        }

        void Finished(bool signedIn)
        {
            GamedDialog dialog = person as GamedDialog;
            if (dialog != null)
                dialog.Finish();
            if (signedIn && SignedIn != null)
                SignedIn();
            if (signedIn)
                onSignedIn.Invoke();
        }

        void Raise(GamedError problem)
        {
            if (ProblemFound != null)
                ProblemFound(problem);
            onProblem.Invoke(PlayerTexts.Problem(Locale, problem));
        }

        GamedDialog Dialog()
        {
            GamedDialog found = GetComponent<GamedDialog>();
            return found == null ? null : found;                  // a destroyed object of Unity only equals null
        }

        static string NameOf(string text)
        {
            string name = Regex.Replace(text ?? "", "[^A-Za-z0-9._-]", "-").Trim('-', '.');
            return name == "" ? "game" : name.Substring(0, Math.Min(64, name.Length));
        }

        /// <summary>Runs `action` on the main thread: at once if this is it.</summary>
        void Run(Action action)
        {
            if (main == null || Thread.CurrentThread.ManagedThreadId == mainThread)
                action();
            else
                main.Post(ignored => action(), null);
        }

        /// <summary>The person of the sign-in, asked on the main thread.</summary>
        sealed class OnMainThread : IPerson
        {
            readonly GamedBehaviour gamed;
            readonly IPerson person;

            internal OnMainThread(GamedBehaviour gamed, IPerson person)
            {
                this.gamed = gamed;
                this.person = person;
                GamedDialog dialog = person as GamedDialog;
                if (dialog != null)
                    dialog.Cancelling = () => gamed.CancelSignInAsync();
            }

            public Task<string> ChooseProviderAsync(IList<LoginProvider> providers, CancellationToken cancel)
            {
                return AskedAsync(() => person.ChooseProviderAsync(providers, cancel));
            }

            public void BrowserOpened(string url, bool opened, string qrUrl)
            {
                gamed.Run(() => person.BrowserOpened(url, opened, qrUrl));
            }

            public Task<string> FinishCodeAsync(Action showCode, int? attemptsLeft, CancellationToken cancel)
            {
                return AskedAsync(() => person.FinishCodeAsync(showCode, attemptsLeft, cancel));
            }

            public void Problem(GamedError error)
            {
                gamed.Run(() =>
                {
                    person.Problem(error);
                    gamed.Raise(error);
                });
            }

            Task<string> AskedAsync(Func<Task<string>> question)
            {
                var asked = new TaskCompletionSource<Task<string>>();
                gamed.Run(() =>
                {
                    try
                    {
                        asked.SetResult(question());
                    }
                    catch (Exception error)
                    {
                        asked.SetException(error);
                    }
                });
                return asked.Task.Unwrap();
            }
        }
    }
}
