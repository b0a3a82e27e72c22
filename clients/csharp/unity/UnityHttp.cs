// HTTP through UnityWebRequest, for a platform without other HTTP: `new GamedOptions { Send = http.SendAsync }`.

using System;
using System.Collections.Generic;
using System.IO;
using System.Threading;
using System.Threading.Tasks;
using UnityEngine.Networking;

namespace Gamed
{
    /// <summary>Sends requests on Unity's main thread. It keeps each answer in memory, also large files.</summary>
    public sealed class UnityHttp
    {
        readonly SynchronizationContext main = SynchronizationContext.Current;

        /// <summary>For <see cref="GamedOptions.Send"/>. Create the object on the main thread, in `Awake`.</summary>
        public Task<GamedResponse> SendAsync(GamedRequest request, CancellationToken cancel)
        {
            var answer = new TaskCompletionSource<GamedResponse>();
            main.Post(ignored => Begin(request, cancel, answer), null);
            return answer.Task;
        }

        void Begin(GamedRequest request, CancellationToken cancel, TaskCompletionSource<GamedResponse> answer)
        {
            var web = new UnityWebRequest(request.Url, request.Method);
            web.redirectLimit = 0;                                // the client checks redirects itself
            web.timeout = (int)Math.Ceiling(request.TimeoutSeconds);
            web.downloadHandler = new DownloadHandlerBuffer();
            if (request.Body != null)
                web.uploadHandler = new UploadHandlerRaw(request.Body);
            foreach (KeyValuePair<string, string> header in request.Headers)
                if (header.Key != "User-Agent")
                    web.SetRequestHeader(header.Key, header.Value);
            CancellationTokenRegistration left = cancel.Register(() => main.Post(ignored => web.Abort(), null));
            web.SendWebRequest().completed += ignored =>
            {
                left.Dispose();
                if (web.responseCode == 0)
                    answer.TrySetException(new IOException(web.error));
                else
                    answer.TrySetResult(new GamedResponse((int)web.responseCode,
                        web.GetResponseHeaders() ?? new Dictionary<string, string>(),
                        new MemoryStream(web.downloadHandler.data ?? new byte[0])));
                web.Dispose();
            };
        }
    }
}
