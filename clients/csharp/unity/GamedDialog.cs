// A ready dialog for the sign-in, drawn by Unity's IMGUI: it needs no canvas, prefab, font or input system.
//
// GamedBehaviour adds one to its object if its Person is not set. For another look write an IPerson.

using System;
using System.Collections.Generic;
using System.Globalization;
using System.Threading;
using System.Threading.Tasks;
using UnityEngine;

namespace Gamed
{
    /// <summary>The dialog in the middle of the screen; hidden unless a sign-in needs the player.</summary>
    [AddComponentMenu("Gamed/Gamed Dialog")]
    public class GamedDialog : MonoBehaviour, IPerson
    {
        const int Width = 360;

        string locale;
        IList<LoginProvider> providers;
        string link;
        Action showCode;
        int? attemptsLeft;
        GamedError problem;
        string typed = "";
        bool wrong;
        TaskCompletionSource<string> choice, code;

        /// <summary>The language of the texts. IMGUI cannot draw a script that is written from right to left: those
        /// languages have the English texts.</summary>
        public string Locale
        {
            get { return locale ?? CultureInfo.CurrentUICulture.Name; }
            set { locale = value; }
        }

        /// <summary>The action of the Cancel button.</summary>
        internal Action Cancelling { get; set; }

        /// <summary>True while the player sees the dialog.</summary>
        public bool IsShown
        {
            get { return choice != null || link != null || problem != null; }
        }

        /// <summary>Shows one button for each.</summary>
        public Task<string> ChooseProviderAsync(IList<LoginProvider> providers, CancellationToken cancel)
        {
            problem = null;
            this.providers = providers;
            choice = new TaskCompletionSource<string>();
            return choice.Task;
        }

        /// <summary>Shows "Continue in your browser".</summary>
        public void BrowserOpened(string url, bool opened, string qrUrl)
        {
            problem = null;
            link = url;
        }

        /// <summary>Shows a text field for the code.</summary>
        public Task<string> FinishCodeAsync(Action showCode, int? attemptsLeft, CancellationToken cancel)
        {
            this.showCode = showCode;
            this.attemptsLeft = attemptsLeft;
            typed = "";
            wrong = false;
            var asked = code = new TaskCompletionSource<string>();
            cancel.Register(() => asked.TrySetCanceled());
            return asked.Task;
        }

        /// <summary>Shows the text until the player presses Continue; nothing after a Cancel.</summary>
        public void Problem(GamedError error)
        {
            Finish();
            problem = error is LoginCancelledException ? null : error;
        }

        /// <summary>Closes the dialog after the sign-in, unless it shows a problem.</summary>
        internal void Finish()
        {
            choice = code = null;
            link = null;
        }

        void OnGUI()
        {
            if (!IsShown)
                return;
            float scale = Mathf.Max(1, Mathf.Min(Screen.height / 480f, Screen.width / (Width + 40f)));
            GUI.matrix = Matrix4x4.Scale(new Vector3(scale, scale, 1));
            float left = (Screen.width / scale - Width) / 2, top = Screen.height / scale * 0.2f;
            GUILayout.BeginArea(new Rect(left, top, Width, Screen.height / scale * 0.6f), GUI.skin.box);
            if (problem != null)
                DrawProblem();
            else if (choice != null)
                DrawChoice();
            else
                DrawBrowser();
            GUILayout.EndArea();
        }

        string Drawn
        {
            get { return PlayerTexts.IsRightToLeft(Locale) ? "en" : Locale; }
        }

        string Text(string english, string value = null)
        {
            return PlayerTexts.Text(Drawn, english, value);
        }

        void DrawProblem()
        {
            GUILayout.Label(PlayerTexts.Problem(Drawn, problem));
            if (GUILayout.Button(Text("Continue")))
                problem = null;
        }

        void DrawChoice()
        {
            GUILayout.Label(Text("How do you want to sign in?"));
            foreach (LoginProvider provider in providers)
                if (GUILayout.Button(Text("Sign in with {provider}", provider.Label)))
                    Choose(provider.Name);
            if (GUILayout.Button(Text("Cancel")))
                Choose(null);
        }

        void Choose(string name)
        {
            TaskCompletionSource<string> chosen = choice;
            choice = null;
            if (chosen != null)
                chosen.TrySetResult(name);
        }

        void DrawBrowser()
        {
            GUILayout.Label(Text("The sign-in continues in your browser."));
            if (GUILayout.Button(Text("Copy the link")))
                GUIUtility.systemCopyBuffer = link;
            if (code != null)
                DrawCode();
            if (GUILayout.Button(Text("Cancel")) && Cancelling != null)
                Cancelling();
        }

        void DrawCode()
        {
            if (attemptsLeft != null)
                GUILayout.Label(Text("That is not the code. Attempts left: {count}",
                    attemptsLeft.Value.ToString(CultureInfo.InvariantCulture)));
            if (showCode != null && GUILayout.Button(Text("Show me a code")))
                showCode();
            GUILayout.Label(Text(wrong ? "The code has six letters, like BKT-RVW."
                : "Type the six letters that the sign-in page shows."));
            typed = GUILayout.TextField(typed, 16);
            if (!GUILayout.Button(Text("Continue")))
                return;
            string letters = SignIn.FinishCode(typed);
            wrong = letters == null;
            TaskCompletionSource<string> asked = code;
            if (wrong)
                return;
            code = null;
            asked.TrySetResult(letters);
        }
    }
}
