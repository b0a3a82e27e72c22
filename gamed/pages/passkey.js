// The only script of the pages: it asks the browser for a passkey and submits the result in the page's own form.
(function () {
  "use strict";
  const form = document.getElementById("passkey");
  if (!form || !window.PublicKeyCredential) return;
  const { call, publicKey } = JSON.parse(form.dataset.options);
  // Of a server with several names, browsers allow passkeys at that of its public_url alone.
  if (location.hostname !== (publicKey.rpId || publicKey.rp.id)) return;
  const failed = document.getElementById("passkey-failed");
  let waiting = null;
  let ended = Promise.resolve();

  function bytes(text) {
    const plain = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
    return Uint8Array.from(plain, (character) => character.charCodeAt(0));
  }
  function text(buffer) {
    const plain = String.fromCharCode(...new Uint8Array(buffer || []));
    return btoa(plain).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
  }
  function send(found) {
    const response = found.response;
    const values = call === "create"
      ? { client_data: response.clientDataJSON, attestation: response.attestationObject }
      : {
          credential_id: found.rawId,
          client_data: response.clientDataJSON,
          authenticator_data: response.authenticatorData,
          signature: response.signature,
          user_handle: response.userHandle,
        };
    for (const name of Object.keys(values)) form.elements[name].value = text(values[name]);
    form.submit();
  }
  async function ask(more) {
    if (waiting) waiting.abort();
    const own = waiting = new AbortController();
    await ended; // a browser has one request at a time
    try {
      const asked = navigator.credentials[call]({ publicKey, signal: own.signal, ...more });
      ended = asked.then(() => {}, () => {});
      send(await asked);
    } catch (error) {
      // Aborted by the button, or by leaving the page: nothing has failed.
      if (waiting === own && !more.mediation) failed.hidden = false;
    }
  }

  publicKey.challenge = bytes(publicKey.challenge);
  if (publicKey.user) publicKey.user.id = bytes(publicKey.user.id);
  for (const each of publicKey.excludeCredentials || []) each.id = bytes(each.id);
  form.hidden = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    failed.hidden = true;
    ask({});
  });
  // Autofill: the browser offers passkeys beside the names that it knows for this field.
  const conditional = window.PublicKeyCredential.isConditionalMediationAvailable;
  if (call === "get" && conditional && document.querySelector('[autocomplete~="webauthn"]')) {
    conditional.call(window.PublicKeyCredential).then((able) => {
      if (able && !waiting) ask({ mediation: "conditional" });
    });
  }
})();
