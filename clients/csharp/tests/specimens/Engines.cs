// Stand-ins for what the README's samples use of Unity and BepInEx: shapes only, nothing runs.

using System;
using System.Collections.Generic;

namespace UnityEngine
{
    public class Object
    {
    }

    public class MonoBehaviour : Object
    {
    }

    public static class Application
    {
        public static string version
        {
            get { return ""; }
        }

        public static string persistentDataPath
        {
            get { return ""; }
        }

        public static void OpenURL(string url)
        {
        }
    }

    public static class Debug
    {
        public static void Log(object message)
        {
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

namespace BepInEx
{
    [AttributeUsage(AttributeTargets.Class)]
    public class BepInPlugin : Attribute
    {
        public BepInPlugin(string id, string name, string version)
        {
        }
    }

    public class BaseUnityPlugin : UnityEngine.MonoBehaviour
    {
        protected Configuration.ConfigFile Config
        {
            get { return null; }
        }

        protected Logging.ManualLogSource Logger
        {
            get { return null; }
        }
    }
}

namespace BepInEx.Configuration
{
    public class ConfigEntry<T>
    {
        public T Value { get; set; }
    }

    public class ConfigFile
    {
        public ConfigEntry<T> Bind<T>(string section, string key, T value, string description)
        {
            return null;
        }
    }
}

namespace BepInEx.Logging
{
    public class ManualLogSource
    {
        public void LogInfo(object data)
        {
        }

        public void LogWarning(object data)
        {
        }

        public void LogMessage(object data)
        {
        }
    }
}
