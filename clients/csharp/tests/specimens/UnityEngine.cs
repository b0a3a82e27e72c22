// A minimal stand-in for UnityEngine: the types that the Unity files of the client use, a main loop and a text dialog.
//
// Names and parameters are Unity's; `Stage` is the test's: it runs frames, presses buttons and plays the system.

using System;
using System.Collections;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using System.Threading;

namespace UnityEngine
{
    public class Object
    {
    }

    public class Component : Object
    {
        public GameObject gameObject { get; internal set; }

        public T GetComponent<T>() where T : class
        {
            return gameObject.Components.OfType<T>().FirstOrDefault();
        }
    }

    public class MonoBehaviour : Component
    {
    }

    public sealed class GameObject : Object
    {
        internal readonly List<MonoBehaviour> Components = new List<MonoBehaviour>();

        public T AddComponent<T>() where T : MonoBehaviour, new()
        {
            var added = new T { gameObject = this };
            Components.Add(added);
            Stage.Call(added, "Awake");
            Stage.Call(added, "OnEnable");
            Stage.Started.Enqueue(added);
            return added;
        }
    }

    [AttributeUsage(AttributeTargets.Field)]
    public sealed class SerializeField : Attribute
    {
    }

    [AttributeUsage(AttributeTargets.Field)]
    public sealed class TooltipAttribute : Attribute
    {
        public TooltipAttribute(string tooltip)
        {
        }
    }

    [AttributeUsage(AttributeTargets.Class)]
    public sealed class AddComponentMenu : Attribute
    {
        public AddComponentMenu(string menuName)
        {
        }
    }

    [AttributeUsage(AttributeTargets.Class)]
    public sealed class DisallowMultipleComponent : Attribute
    {
    }

    public abstract class CustomYieldInstruction : IEnumerator
    {
        public abstract bool keepWaiting { get; }

        public object Current
        {
            get { return null; }
        }

        public bool MoveNext()
        {
            return keepWaiting;
        }

        public void Reset()
        {
        }
    }

    public static class Application
    {
        public static event Action<string> deepLinkActivated;

        public static bool isMobilePlatform
        {
            get { return Stage.Phone; }
        }

        public static string productName
        {
            get { return "Stage: the game"; }
        }

        public static string version
        {
            get { return "0.1 (stage)"; }
        }

        public static string persistentDataPath
        {
            get { return Stage.Folder; }
        }

        public static void OpenURL(string url)
        {
            Stage.NeedMain();
            Stage.Opened.Add(url);
        }

        internal static void Activate(string url)
        {
            if (deepLinkActivated != null)
                deepLinkActivated(url);
        }
    }

    public static class SystemInfo
    {
        public static string deviceName
        {
            get { return "Stage machine"; }
        }
    }

    public static class Debug
    {
        public static void Log(object message)
        {
        }
    }

    public static class Mathf
    {
        public static float Max(float a, float b)
        {
            return Math.Max(a, b);
        }

        public static float Min(float a, float b)
        {
            return Math.Min(a, b);
        }
    }

    public static class Screen
    {
        public static int width
        {
            get { return 1280; }
        }

        public static int height
        {
            get { return 720; }
        }
    }

    public struct Vector3
    {
        public Vector3(float x, float y, float z)
        {
        }
    }

    public struct Matrix4x4
    {
        public static Matrix4x4 Scale(Vector3 vector)
        {
            return new Matrix4x4();
        }
    }

    public struct Rect
    {
        public Rect(float x, float y, float width, float height)
        {
        }
    }

    public sealed class GUIStyle
    {
    }

    public sealed class GUISkin : Object
    {
        public GUIStyle box { get; set; }
    }

    public sealed class GUILayoutOption
    {
    }

    public static class GUIUtility
    {
        public static string systemCopyBuffer { get; set; }
    }

    public static class GUI
    {
        public static GUISkin skin = new GUISkin();

        public static Matrix4x4 matrix { get; set; }
    }

    public static class GUILayout
    {
        public static void BeginArea(Rect screenRect, GUIStyle style)
        {
            Stage.NeedMain();
        }

        public static void EndArea()
        {
        }

        public static void Label(string text, params GUILayoutOption[] options)
        {
            Stage.Shown.Add(text);
        }

        public static bool Button(string text, params GUILayoutOption[] options)
        {
            Stage.Shown.Add("[" + text + "]");
            bool pressed = Stage.Press == text;
            if (pressed)
                Stage.Press = null;
            return pressed;
        }

        public static string TextField(string text, int maxLength, params GUILayoutOption[] options)
        {
            string typed = Stage.Typed ?? text;
            Stage.Typed = null;
            return typed;
        }
    }

    public class AsyncOperation
    {
        public event Action<AsyncOperation> completed
        {
            add { }
            remove { }
        }
    }

    /// <summary>The engine and the person in front of it: one thread, the main one, runs the frames.</summary>
    public static class Stage
    {
        sealed class Loop : SynchronizationContext
        {
            internal readonly ConcurrentQueue<Action> Waiting = new ConcurrentQueue<Action>();

            public override void Post(SendOrPostCallback callback, object state)
            {
                Waiting.Enqueue(() => callback(state));
            }
        }

        static readonly Loop Main = new Loop();
        static int mainThread;

        internal static readonly Queue<MonoBehaviour> Started = new Queue<MonoBehaviour>();

        /// <summary>The texts that the dialog shows in this frame.</summary>
        public static readonly List<string> Shown = new List<string>();

        /// <summary>The addresses that were opened in the browser.</summary>
        public static readonly List<string> Opened = new List<string>();

        public static string Folder { get; set; }

        public static bool Phone { get; set; }

        /// <summary>The button that the player presses, once it is there.</summary>
        public static string Press { get; set; }

        /// <summary>The text that the player types.</summary>
        public static string Typed { get; set; }

        public static void Begin()
        {
            mainThread = Thread.CurrentThread.ManagedThreadId;
            SynchronizationContext.SetSynchronizationContext(Main);
        }

        /// <summary>Runs frames until `done`, at most a minute long.</summary>
        public static void Until(Func<bool> done, string what, params GameObject[] scene)
        {
            for (int frame = 0; !done(); frame++)
            {
                if (frame == 6000)
                    throw new InvalidOperationException("it did not happen: " + what + "; shown: " +
                        string.Join(" | ", Shown));
                Frame(scene);
                Thread.Sleep(10);
            }
        }

        static void Frame(GameObject[] scene)
        {
            while (Started.Count > 0)
                Call(Started.Dequeue(), "Start");
            for (Action action; Main.Waiting.TryDequeue(out action);)
                action();
            Shown.Clear();
            foreach (MonoBehaviour each in scene.SelectMany(one => one.Components).ToArray())
                Call(each, "OnGUI");
        }

        /// <summary>Runs a coroutine, frame by frame.</summary>
        public static void Run(IEnumerator coroutine, params GameObject[] scene)
        {
            while (coroutine.MoveNext())
            {
                var wait = coroutine.Current as CustomYieldInstruction;
                if (wait != null)
                    Until(() => !wait.keepWaiting, "a coroutine goes on", scene);
            }
        }

        /// <summary>The game quits: every object is asked first, then destroyed; no frame follows.</summary>
        public static void Quit(GameObject scene)
        {
            Tell(scene, "OnApplicationQuit");
            Destroy(scene);
        }

        /// <summary>The system puts the app into the background, where it may end it.</summary>
        public static void Pause(GameObject scene)
        {
            Tell(scene, "OnApplicationPause", true);
        }

        static void Tell(GameObject scene, string message, params object[] arguments)
        {
            foreach (MonoBehaviour each in scene.Components)
                Call(each, message, arguments);
        }

        public static void Destroy(GameObject gone)
        {
            foreach (MonoBehaviour each in gone.Components)
            {
                Call(each, "OnDisable");
                Call(each, "OnDestroy");
            }
        }

        internal static void Call(MonoBehaviour each, string message, params object[] arguments)
        {
            MethodInfo method = each.GetType().GetMethod(message, BindingFlags.Instance | BindingFlags.NonPublic);
            if (method != null)
                method.Invoke(each, arguments);
        }

        internal static void NeedMain()
        {
            if (Thread.CurrentThread.ManagedThreadId != mainThread)
                throw new InvalidOperationException("not on the main thread");
        }

        /// <summary>Opens the app with an address, as the system does.</summary>
        public static void Activate(string url)
        {
            Application.Activate(url);
        }
    }
}

namespace UnityEngine.Events
{
    public class UnityEvent
    {
        Action calls;

        public void AddListener(Action call)
        {
            calls += call;
        }

        public void Invoke()
        {
            if (calls != null)
                calls();
        }
    }

    public class UnityEvent<T>
    {
        Action<T> calls;

        public void AddListener(Action<T> call)
        {
            calls += call;
        }

        public void Invoke(T value)
        {
            if (calls != null)
                calls(value);
        }
    }
}

namespace UnityEngine.Networking
{
    public class UploadHandler
    {
    }

    public class UploadHandlerRaw : UploadHandler
    {
        public UploadHandlerRaw(byte[] data)
        {
        }
    }

    public class DownloadHandler
    {
        public byte[] data
        {
            get { return null; }
        }
    }

    public class DownloadHandlerBuffer : DownloadHandler
    {
    }

    public class UnityWebRequestAsyncOperation : AsyncOperation
    {
    }

    public class UnityWebRequest : IDisposable
    {
        public UnityWebRequest(string url, string method)
        {
        }

        public int redirectLimit { get; set; }

        public int timeout { get; set; }

        public long responseCode
        {
            get { return 0; }
        }

        public string error
        {
            get { return ""; }
        }

        public UploadHandler uploadHandler { get; set; }

        public DownloadHandler downloadHandler { get; set; }

        public void SetRequestHeader(string name, string value)
        {
        }

        public Dictionary<string, string> GetResponseHeaders()
        {
            return null;
        }

        public UnityWebRequestAsyncOperation SendWebRequest()
        {
            return null;
        }

        public void Abort()
        {
        }

        public void Dispose()
        {
        }
    }
}
