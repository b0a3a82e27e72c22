// Stand-ins for the parts of BepInEx that the README's samples use: declarations only, they are not run.

using System;

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
