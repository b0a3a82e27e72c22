"""Each check of an ID token taken out, as an edit of the source (OpenID Connect Core 1.0 3.1.3.7, RFC 7515, 7517)."""

from tests.mutants.mutant import Mutant

TOKEN, KEYS = "gamed/identity/id_token.py", "gamed/identity/signing_keys.py"
SUBJECT, SPELLING, OIDC = "gamed/identity/subject.py", "gamed/identity/base64url.py", "gamed/identity/oidc.py"
GATE, DOCUMENTS, WHOLE = "tests.identity.test_id_token", "tests.identity.test_documents", "tests.identity.test_oidc"


def _drop(name: str, file: str, old: str, new: str, noticed_by: str = GATE) -> Mutant:
    return Mutant(name, file, old, new, noticed_by)


EARLY = 'if now < times["iat"] - SKEW_SECONDS or now < times.get("nbf", 0) - SKEW_SECONDS:'
CHECKS = (
    _drop("form_size", TOKEN, "if len(raw) > MAX_BYTES:", "if False:"),
    _drop("form_spelling", SPELLING, "if base64url(raw) != text:", "if False:"),
    *(
        _drop(f"header_{name}", TOKEN, f'"{name}", ' if name != "b64" else ', "b64"', "")
        for name in ("crit", "jwk", "jku", "x5u", "x5c", "b64")
    ),
    _drop("header_alg", TOKEN, "if not _is_one_of(algorithm, algorithms):", "if False:"),
    _drop("header_typ", TOKEN, 'or kind.upper() != "JWT"', ""),
    _drop("header_kid", TOKEN, 'if "kid" in header and not isinstance(kid, str):', "if False:"),
    _drop(
        "signature",
        TOKEN,
        "jws.deserialize_compact(envelope.token.reveal(), key, registry=registry)",
        "jws.extract_compact(envelope.token.reveal(), None, registry)",
    ),
    _drop("key_of_the_algorithm", KEYS, "key.algorithm == algorithm and ", ""),
    _drop("key_of_the_name", KEYS, "(kid is None or key.kid == kid)", "True"),
    _drop("key_without_a_name", KEYS, "if kid is None and len(keys) > 1:", "if False:"),
    _drop("key_twice", KEYS, "if len(found) > 1:", "if False:"),
    _drop("key_short", KEYS, "range(2048, 4097)", "range(1024, 4097)", DOCUMENTS),
    _drop("key_long", KEYS, "range(2048, 4097)", "range(2048, 99999)", DOCUMENTS),
    _drop("key_exponent", KEYS, " or len(exponent) * 8 > MAX_EXPONENT_BITS", "", DOCUMENTS),
    _drop("key_use", KEYS, 'return verifies and key.get("use") in (None, "sig")', "return verifies", DOCUMENTS),
    _drop("key_operations", KEYS, "return verifies and", "return", DOCUMENTS),
    _drop("key_alg", KEYS, 'value.get("alg") in (None, "RS256")', "True", DOCUMENTS),
    _drop("key_curve", KEYS, ' and value.get("crv") == "P-256"', "", DOCUMENTS),
    _drop("key_newer", OIDC, "if newer is None:", "if True:", WHOLE),
    _drop("key_changed", OIDC, "except (KeyUnknown, SignatureWrong):", "except KeyUnknown:", WHOLE),
    _drop("google_RS256", OIDC, 'PRESET_ALGORITHMS if settings.name == "google" else ALGORITHMS', "ALGORITHMS", WHOLE),
    _drop("iss", TOKEN, 'if not _is_one_of(claims.get("iss"), expected.issuers):', "if False:"),
    _drop("aud", TOKEN, "    _judge_audience(claims, expected.client_id)\n", ""),
    _drop("aud_holds_us", TOKEN, " or client_id not in listed", ""),
    _drop("aud_of_others", TOKEN, "if len(listed) > 1:", "if False:"),
    _drop("azp", TOKEN, 'if claims.get("azp", client_id) != client_id:', "if False:"),
    _drop("times", TOKEN, "    _judge_times(claims, now_ms, offset_ms)\n", ""),
    _drop("times_are_numbers", TOKEN, "isinstance(value, bool) or ", ""),
    _drop("exp", TOKEN, 'if now >= times["exp"] + SKEW_SECONDS:', "if False:"),
    _drop("iat_to_come", TOKEN, EARLY, 'if now < times.get("nbf", 0) - SKEW_SECONDS:'),
    _drop("nbf", TOKEN, EARLY, 'if now < times["iat"] - SKEW_SECONDS:'),
    _drop("iat_long_ago", TOKEN, 'if now > times["iat"] + MAX_AGE_SECONDS + SKEW_SECONDS:', "if False:"),
    _drop("skew_longer", TOKEN, "SKEW_SECONDS = 120", "SKEW_SECONDS = 121"),
    _drop("skew_shorter", TOKEN, "SKEW_SECONDS = 120", "SKEW_SECONDS = 119"),
    _drop(
        "skew_measured",
        TOKEN,
        "skewed = offset_ms is not None and abs(offset_ms) > SKEW_SECONDS * 1000",
        "skewed = True",
    ),
    _drop("skew_excuses", TOKEN, " and _out_of_time(times, (now_ms + offset_ms) / 1000) is None", ""),
    _drop("nonce", TOKEN, " or not _same(nonce, expected.nonce)", ""),
    _drop("nonce_expected", TOKEN, " or not expected.nonce", ""),
    _drop("sub", TOKEN, 'return openid_subject(claims.get("sub"))', 'return str(claims.get("sub"))'),
    _drop("sub_whole", SUBJECT, "_OPENID.fullmatch", "_OPENID.match"),
)
