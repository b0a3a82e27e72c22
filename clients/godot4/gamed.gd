## Client of a gamed server, protocol 1.0: sign in, stay signed in, keep saves.
## [codeblock]
##     const GamedClient = preload("res://gamed.gd")
##     var client = GamedClient.new("https://play.example.org", {"app": "mygame"})   # keep it in a member
##     var signed_in = await client.ensure_signed_in(Dialog.new(client))   # gamed_dialog.gd, or your own
##     var result = await client.get_save("auto")
##     if result.error:                                            # a GamedError: code, kind, detail
##         $Label.text = result.error.detail
##     elif result.value:                                          # null: never saved
##         load_game(result.value.data)
##     result = await client.put("auto", bytes, result.value)
## [/codeblock]
## Functions that ask the server are coroutines and end with a Result: `error` (a GamedError or null) and `value`. Those
## whose loop ends only with a `return` state no type, because the compiler would want a `return` after the loop.
## Nothing blocks the main loop: a thread waits for this device's disk. Call from the main thread only.
## Names and behaviour are those of the reference, clients/python/gamed_client.py.
class_name GamedClient
extends RefCounted

signal paused(seconds: float)  ## before each pause between two tries
signal session_ended(code: String)  ## the credential was forgotten: show the sign-in again

const VERSION = "1.0.0rc1"
const TIMEOUT_SECONDS = 15.0
const TRIES = 4
const LONGEST_PAUSE_SECONDS = 30.0
const NO_ANSWER = "does not answer. Check the address and the network"
const EARLY_SECONDS = 30.0  ## the client refreshes an access token this long before it expires, at most
const EARLY_SHARE = 0.1  ## the client refreshes a short-lived access token when this share of its lifetime is left
const RETURN_SECONDS = 5.0  ## the browser's return is awaited this long before a code is offered
const MAX_JSON_BYTES = 4194304
const MAX_SAVE_BYTES = 268435456
const MAX_EXPORT_BYTES = 1099511627776
const EXPORT_SECONDS = 120.0  ## the server may take this long to make an export before it sends the first byte
const LONGEST_EXPORT_PAUSE_SECONDS = 60.0  ## the server answers `busy` with 30 while a lost connection's export runs
const ASK_FIRST_BYTES = 65536  ## a commit asks first whether the server has larger bytes
const METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH"]  ## HTTPClient.Method
const FRAME_USEC = 4000  ## the client copies arrived bytes for this long in a frame, at most
const SLICE_BYTES = 65536
const BINARY = "application/octet-stream"  ## The media type of a save, if the game names none.

## Only after these is a refresh credential forgotten (Rules for clients, 3).
const FORGET = ["refresh_expired", "refresh_reused", "refresh_invalid", "session_revoked"]
const RENEW = ["token_expired", "token_invalid"]
## The second try gets one of these if the first one ended the session and its answer was lost.
const ENDED = ["session_not_found", "session_revoked", "token_invalid", "refresh_invalid", "signed_out"]

const OPTIONS = "folder app app_version device_name locale timeout_seconds return_seconds pauses clock_shift"

var origin: Origin = null  ## null if the address is not one: see `problem`
var problem: GamedError = null  ## every call ends with it
var flaw: GamedError = null  ## @deprecated: The older name of [member problem]; it works until 1.0.
var folder: String = "user://gamed"  ## Where the credential is kept.
var app: String = "gamed"  ## The game's name, which separates its sign-in and saves from those of other games.
var app_version: String = VERSION  ## The game's version.
var device_name: String = ""  ## players see it with their saves; empty: the name of the host
var locale: String = ""  ## the game's language, such as "de" or "pt_BR", for pages and dialogs; empty: the system's
var timeout_seconds: float = TIMEOUT_SECONDS  ## Longest time without a received byte.
var return_seconds: float = RETURN_SECONDS  ## until a code is offered, if the browser has not returned
var pauses: float = 1.0  ## factor for pauses between two tries: for tests
var clock_shift: float = 0.0  ## seconds, for tests: by how much this clock is wrong

var _file: CredentialFile = null
var _held: Credential = null
var _player: Variant = null
var _sign_outs: int = 0  # how often this client, or that of `_root`, has forgotten its credential
var _too_old: String = ""  # the session for which the server has last wanted a more recent sign-in
var _tries: int = TRIES
var _cancellation := Cancellation.new()
var _root: WeakRef = null  # the client on which `only` was called; weak, because that one may keep this one
var _closed: bool = false
var _ensuring: Variant = null  # the person of `ensure_signed_in`, while it runs
var _running: WeakRef = null  # the newest SignIn


func _init(server: String, options: Dictionary = {}) -> void:
	var entered := Origin.entered(server)
	problem = entered.error
	origin = entered.value
	for name: String in OPTIONS.split(" "):
		if options.get(name) != null:
			set(name, options[name])
	if problem == null and not (Tools.only(app, Tools.ALPHANUMERIC + " ._-", 64) and app[0] in Tools.ALPHANUMERIC):
		problem = GamedError.new("invalid_app", "app: letters, digits, space, '.', '_', '-'")
	if problem == null:
		_file = CredentialFile.new(folder, origin)
		Tools.hold_tab()
	flaw = problem


# --- The engine -------------------------------------------------------------------------------------------------------


# Calls of the engine that Godot 3 does not have, or that do something else there: clients/godot3/platform.gd has this
# class for Godot 3.
class Platform:
	const NAME = "Godot 4"
	const UNREADABLE = 0xFFFD  # the engine reads NUL and bytes that are not UTF-8 as this character
	# The engine asks one address of a name only, and wants at least four characters of one.
	const LOOPBACK = {"localhost": "127.0.0.1", "::1": "0:0:0:0:0:0:0:1"}
	const SETTINGS = {
		"gamed/server": "http://127.0.0.1:8080",
		"gamed/app": "",  # the project's name
		"gamed/return_uri": "",  # on Android: an address of this app, which the server's owner has listed
	}
	const UNIX = ["linux", "freebsd", "netbsd", "openbsd", "bsd", "macos"]

	# Waits for the next frame. A call of a game that fails at once does, too, so that a game that repeats it goes on.
	static func frame() -> void:
		await (Engine.get_main_loop() as SceneTree).process_frame

	# "linux", "windows", "macos", "android", ...
	static func system() -> String:
		return OS.get_name().to_lower()

	static func is_web() -> bool:
		return OS.has_feature("web")

	# Runs a script in the page; null outside of a browser.
	static func in_page(script: String) -> Variant:
		return JavaScriptBridge.eval(script) if is_web() else null

	# Runs a program; true if it exited with 0.
	static func execute(program: String, arguments: Array, output: Array) -> bool:
		return OS.execute(program, arguments, output) == 0

	# Seconds since 1970.
	static func now() -> float:
		return Time.get_unix_time_from_system()

	static func utc(seconds: int) -> String:
		return Time.get_datetime_string_from_unix_time(seconds) + "Z"

	# null if the text is not JSON. JSON.parse_string would print that on the console.
	static func parsed(text: String) -> Variant:
		var parser := JSON.new()
		return parser.data if parser.parse(text) == OK else null

	# JSON in one line, members in order.
	static func json(value: Variant) -> String:
		return JSON.stringify(_whole(value), "", true, true)

	# The engine writes 3 as 3.0 if it was read as a float, and its parser reads every number as one.
	static func _whole(value: Variant) -> Variant:
		if value is Dictionary:
			var made := {}
			for name: Variant in value:
				made[name] = _whole(value[name])
			return made
		if value is Array:
			var list := []
			for each: Variant in value:
				list.append(_whole(each))
			return list
		return Tools.integer(value, value)

	static func join(parts: Variant, between: String) -> String:
		return between.join(parts)

	# The bytes from `begin` to before `end`.
	static func slice(bytes: PackedByteArray, begin: int, end: int) -> PackedByteArray:
		return bytes.slice(begin, end)

	# null if the file cannot be opened.
	static func open(path: String, mode: FileAccess.ModeFlags) -> FileAccess:
		return FileAccess.open(path, mode)

	static func has_file(path: String) -> bool:
		return FileAccess.file_exists(path)

	static func has_folder(path: String) -> bool:
		return DirAccess.dir_exists_absolute(path)

	static func make_folder(path: String) -> bool:
		return DirAccess.make_dir_absolute(path) == OK

	# Makes a folder and those above it. Other users can open them, so call it below a private folder.
	static func make_folders(path: String) -> bool:
		return DirAccess.make_dir_recursive_absolute(path) == OK

	static func rename(path: String, other: String) -> bool:
		return DirAccess.rename_absolute(path, other) == OK

	# Removes a file or an empty folder.
	static func remove(path: String) -> bool:
		return DirAccess.remove_absolute(path) == OK

	# 0 if it is not known.
	static func free_bytes(path: String) -> int:
		var directory := DirAccess.open(path)
		return directory.get_space_left() if directory else 0

	# The files and folders of a folder, sorted.
	static func names(path: String) -> Array:
		var directory := DirAccess.open(path)
		if directory == null:
			return []
		directory.include_hidden = true
		var found := Array(directory.get_files()) + Array(directory.get_directories())
		found.sort()
		return found

	static func connect_http(http: HTTPClient, host: String, port: int, secure: bool) -> int:
		return http.connect_to_host(host, port, TLSOptions.client() if secure else null)

	# The Host field of a request: the engine would write an IPv6 address without its brackets.
	static func host_fields(authority: String) -> Dictionary:
		return {"Host": authority}

	# Listens at a port of 127.0.0.1, and returns it; 0 if this platform cannot listen.
	static func listen(server: TCPServer) -> int:
		return server.get_local_port() if server.listen(0, "127.0.0.1") == OK else 0

	# Updates the status of a connection. Godot 3 does this itself.
	static func poll(peer: StreamPeerTCP) -> void:
		peer.poll()

	# Calls a method of the object in a thread; false if this platform cannot.
	static func start(thread: Thread, target: Object, method: String) -> bool:
		return thread.start(Callable(target, method)) == OK

	static func wrap_lines(label: Label) -> void:
		label.autowrap_mode = TextServer.AUTOWRAP_WORD_SMART

	# Scales a picture to the size of its control, with hard edges.
	static func scale_picture(picture: TextureRect) -> void:
		picture.expand_mode = TextureRect.EXPAND_IGNORE_SIZE
		picture.texture_filter = CanvasItem.TEXTURE_FILTER_NEAREST

	static func texture_of(image: Image) -> ImageTexture:
		return ImageTexture.create_from_image(image)

	# The engine shapes each script, and takes letters that its own font lacks from those of the system.
	static func can_draw(_texts: Object) -> bool:
		return true

	# Begins the lines of this control, and of those below it, on the right.
	static func turn(control: Control) -> void:
		control.layout_direction = Control.LAYOUT_DIRECTION_RTL

	# The address with which Android has opened the game, from Godot 4.4 on; else null.
	static func opened_url(notification: int) -> Variant:
		if notification != Node.NOTIFICATION_APPLICATION_RESUMED or not Engine.has_singleton("AndroidRuntime"):
			return null
		var intent: Variant = Engine.get_singleton("AndroidRuntime").getActivity().getIntent()
		return intent.getDataString() if intent else null

	# The address of this app for the end of a sign-in; "" where no browser can open it.
	static func return_uri() -> String:
		return str(ProjectSettings.get_setting("gamed/return_uri", "")) if Engine.has_singleton("AndroidRuntime") else ""


# --- Errors: `kind` says what a game does about them, chosen by `code` ------------------------------------------------


## An error of a call: `code` and `kind` are for the game, `detail` for the player.
class GamedError:
	const TOKENS = "token_missing token_expired token_invalid session_revoked signed_out"
	const REFRESHES = "refresh_expired refresh_reused refresh_invalid reauthentication_required"
	const KINDS = {
		"Busy": "busy shutting_down unhealthy store_unavailable provider_unavailable request_timeout",
		"RateLimited": "rate_limited",
		"SignInRequired": TOKENS + " " + REFRESHES,
		"PlayerChanged": "player_changed",
		"PlayerBlocked": "player_blocked player_pending registration_closed",
		"LoginDeclined": "login_denied provider_denied",
		"LoginCancelled": "login_cancelled",
		"LoginExpired": "login_expired",
		"LoginFailed": "device_secret_invalid login_collected",
		"InvalidProof": "invalid_proof",
		"Deleted": "deleted erased",
		"NotFound": "save_not_found version_gone session_not_found channel_not_found release_not_found file_not_found",
		"NotModified": "not_modified",
		"BaseRequired": "precondition_required",
		"Conflict": "version_conflict superseded",
		"QuotaExceeded": "save_too_large quota_exceeded too_many_slots",
		"StorageFull": "storage_full",
		"SaveCorrupt": "corrupt_blob",
		"Unreachable": "unreachable not_arrived closed",
		"Cancelled": "cancelled",
		"NotKnown": "not_known",
		"NotGamed": "not_gamed",
		"UntrustedAddress": "untrusted_address untrusted_certificate",
		"DownloadCorrupt": "download_corrupt",
		"InUse": "in_use",
		"DiskFull": "disk_full",
		"ConflictOver": "conflict_over",
		"LocalDamaged": "local_damaged state_damaged local_disk",
	}
	const BASES = {
		"PlayerChanged": "SignInRequired",
		"LoginDeclined": "LoginFailed",
		"LoginCancelled": "LoginFailed",
		"LoginExpired": "LoginFailed",
		"Deleted": "NotFound",
		"NotKnown": "Unreachable",
		"DiskFull": "LocalDamaged",
	}
	const PASSING = ["Unreachable", "Busy", "RateLimited", "DownloadCorrupt"]

	var code: String = ""  ## for the game
	var detail: String = ""  ## for the player
	var kind: String = ""  ## the name of the reference's class; the game decides by it
	var status: int = 0  ## of HTTP; 0 for an error of the client itself
	var problem: Dictionary = {}  ## every member of the answer (RFC 9457)
	var retry_after: Variant = null  ## seconds
	var answer_lost_before: bool = false  ## an earlier try got no answer, but the server may have carried it out
	var passing: bool = false  ## the client has retried already

	func _init(the_code: String, the_detail: String, the_status: int = 0, the_problem: Dictionary = {}) -> void:
		code = the_code
		detail = the_detail
		status = the_status
		problem = the_problem
		kind = _kind()
		passing = kind in PASSING

	## True for this kind, and for a kind below it.
	func is_a(name: String) -> bool:
		return kind == name or BASES.get(kind) == name

	## Number of further attempts after a wrong code.
	func attempts_left() -> int:
		return Tools.integer(problem.get("attempts_left"), 0)

	## The three sides of a Conflict, each a SaveInfo or null: the version that this write was based on, the current one
	## of the server, and the refused one.
	func base() -> Variant:
		return SaveInfo.maybe(problem.get("base"))

	## The slot's current SaveInfo, of a Conflict; null if it is empty.
	func current() -> Variant:
		return SaveInfo.maybe(problem.get("current"))

	## The SaveInfo of the conflict copy that the server has kept of the refused bytes; null if it has not.
	func yours() -> Variant:
		return SaveInfo.maybe(problem.get("yours"))

	## In the Conflict of a commit: {"slot", "code", "base", "current", "yours"} for each slot that does not match.
	func slots() -> Array:
		var found := []
		for each: Variant in problem["conflicts"] if problem.get("conflicts") is Array else []:
			if each is Dictionary and each.get("slot") is String:
				var sides := {"slot": each["slot"], "code": Tools.text(each, "code")}
				for side: String in ["base", "current", "yours"]:
					sides[side] = SaveInfo.maybe(each.get(side))
				found.append(sides)
		return found

	func _to_string() -> String:
		return "%s (%s)" % [detail, code]

	func _kind() -> String:
		if code == "deleted" and status == 412:
			return "Conflict"
		for name: String in KINDS:
			if code in KINDS[name].split(" "):
				return name
		return "Refused"

	## Reads the error of an answer without success.
	static func of(answer: Answer) -> GamedError:
		var parsed := answer.json() if answer.media_type() == "application/problem+json" else Result.ok({})
		var named: bool = parsed.error == null and parsed.value.get("code") is String
		var error := _of_problem(parsed.value, answer.status) if named else _of_status(answer.status)
		var asked: String = answer.headers.get("retry-after", "")
		if Tools.only(asked, Tools.DIGITS):
			error.retry_after = float(asked.substr(0, 6))
		return error

	# gamed sends a problem (RFC 9457) with each error, so an answer without one is of a proxy or another server.
	static func _of_status(status: int) -> GamedError:
		if status == 304:
			return GamedError.new("not_modified", "You have the current version.", status)
		if status == 429:
			return GamedError.new("rate_limited", "Too many requests; try again later.", status)
		if status in [408, 502, 503, 504]:
			return GamedError.new("unreachable", "The server is away for the moment (HTTP %d)." % status, status)
		if status >= 300 and status < 400:
			return GamedError.new("not_gamed", "This address leads elsewhere (HTTP %d)." % status, status)
		return GamedError.new("not_gamed", "No gamed server answers at this address (HTTP %d)." % status, status)

	## The error of a login that has failed, from the problem in the server's answer.
	static func of_login(value: Variant) -> GamedError:
		if not value is Dictionary or not value.get("code") is String:
			return Tools.lacks("problem").error
		var error := _of_problem(value, 0)
		error.kind = error.kind if error.is_a("LoginFailed") else "LoginFailed"
		error.passing = false
		return error

	static func _of_problem(value: Dictionary, status: int) -> GamedError:
		var words := Tools.text(value, "detail") if value.get("detail") else Tools.text(value, "title")
		return GamedError.new(value["code"], words if words != "" else value["code"], status, value)


## The end of a call: `error`, or null and a `value`.
class Result:
	var error: GamedError = null  ## null if the call has succeeded.
	var value: Variant = null  ## What the call returns.

	## A success.
	static func ok(the_value: Variant = null) -> Result:
		var made := Result.new()
		made.value = the_value
		return made

	## A failure.
	static func failed(the_error: GamedError) -> Result:
		var made := Result.new()
		made.error = the_error
		return made

	## A failure with a new error.
	static func wrong(code: String, detail: String) -> Result:
		return failed(GamedError.new(code, detail))


## A way to end calls early: see [method cancellable].
class Cancellation:
	var cancelled: bool = false  ## True after `cancel`.

	## Ends the calls that use this, within a frame; they and all later ones end with the code `cancelled`.
	func cancel() -> void:
		cancelled = true


# --- Tools ------------------------------------------------------------------------------------------------------------


class Tools:
	const DIGITS = "0123456789"
	const LOWER = "abcdefghijklmnopqrstuvwxyz0123456789"
	const ALPHANUMERIC = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	const BASE64URL = ALPHANUMERIC + "-_"
	const TYPES = {
		"text": TYPE_STRING, "number": TYPE_INT, "flag": TYPE_BOOL, "object": TYPE_DICTIONARY, "list": TYPE_ARRAY
	}
	const HOLD_TAB = """
		if (navigator.locks && !["held", "asked"].includes(window.gamedTab)) {
			window.gamedTab = "asked";
			navigator.locks.request(%s, {ifAvailable: true}, (lock) => {
				window.gamedTab = lock ? "held" : "other";
				return lock && new Promise(() => {});
			});
		}
	"""
	const VISIBLE = ALPHANUMERIC + "!#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

	# 1 to `most` characters, all of them out of `allowed`.
	static func only(text: String, allowed: String, most: int = 1000000) -> bool:
		var long := text.length()
		if long == 0 or long > most or text.lstrip(allowed) != "":
			return false
		return text.to_ascii_buffer().get_string_from_ascii().length() == long  # lstrip removes NUL, too; this ends there

	# The engine's JSON parser reads every number as a float. `otherwise` for one that is not whole or exceeds 2^53.
	static func integer(value: Variant, otherwise: Variant = null) -> Variant:
		if typeof(value) == TYPE_INT:
			return value
		if typeof(value) == TYPE_FLOAT and value == floor(value) and abs(value) <= 9007199254740991.0:
			return int(value)
		return otherwise

	# "" for a member that is not a text, so that it can be compared.
	static func text(of: Dictionary, name: String) -> String:
		return of[name] if of.get(name) is String else ""

	static func lacks(name: String) -> Result:
		return Result.wrong("not_gamed", "The server's answer lacks '%s'." % name)

	# The JSON of a call's answer, or the call's error.
	static func json(answer: Result) -> Result:
		return answer.value.json() if answer.error == null else answer

	# A member that the protocol requires of the object that a call has found, or the call's error. `type` is one of
	# TYPES; or [one of them, the value without such a member]; or that of each member of an object.
	static func member(of: Result, name: String, type: Variant) -> Result:
		if type is Dictionary:
			return members(member(of, name, "object"), type)
		if of.error:
			return of
		var found: Variant = typed(of.value.get(name), type[0] if type is Array else type)
		if found == null and not type is Array:
			return lacks(name)
		return Result.ok(type[1] if found == null else found)

	# Result of {name: value} of such members; `types` has the type of each.
	static func members(of: Result, types: Dictionary) -> Result:
		var found := {}
		for name: String in types:
			var one := member(of, name, types[name])
			if one.error:
				return one
			found[name] = one.value
		return Result.ok(found)

	# A Dictionary of these members of another.
	static func part(of: Dictionary, names: Array) -> Dictionary:
		var made := {}
		for name: String in names:
			made[name] = of[name]
		return made

	# The value, if its type is this one of TYPES; else null.
	static func typed(value: Variant, type: String) -> Variant:
		var found: Variant = integer(value) if type == "number" else value
		return found if typeof(found) == TYPES[type] else null

	# Those of one of TYPES.
	static func filtered(listed: Array, type: String) -> Array:
		var found := []
		for each: Variant in listed:
			if typed(each, type) != null:
				found.append(typed(each, type))
		return found

	static func hash_of(data: PackedByteArray) -> PackedByteArray:
		var context := HashingContext.new()
		context.start(HashingContext.HASH_SHA256)
		if data.size() > 0:
			context.update(data)
		return context.finish()

	static func is_sha256(text: String) -> bool:
		return text.length() == 64 and only(text, "0123456789abcdef")

	static func sha256(data: PackedByteArray) -> String:
		return hash_of(data).hex_encode()

	# `sha-256=:...:` (RFC 9530).
	static func digest_field(data: PackedByteArray) -> String:
		return "sha-256=:%s:" % Marshalls.raw_to_base64(hash_of(data))

	# JSON in one line of ASCII, members in order: for headers, and to compare two values.
	static func ascii_json(value: Variant) -> String:
		var text := Platform.json(value)
		if not only(text, VISIBLE + " \""):
			var parts := PackedStringArray()
			var begin := 0
			for i in range(text.length()):
				var unit := text.unicode_at(i)
				if unit < 32 or unit > 126:
					parts.append(text.substr(begin, i - begin))
					parts.append(_escaped(unit))
					begin = i + 1
			parts.append(text.substr(begin, text.length() - begin))
			text = Platform.join(parts, "")
		# The engine also writes \v, which JSON does not have. A tab, which the text has not, stands for two backslashes.
		return text.replace("\\\\", "\t").replace("\\v", "\\u000b").replace("\t", "\\\\")

	static func _escaped(unit: int) -> String:
		if unit > 0xFFFF:
			unit -= 0x10000
			return "\\u%04x\\u%04x" % [0xD800 + (unit >> 10), 0xDC00 + (unit & 0x3FF)]
		return "\\u%04x" % unit

	static func same_json(one: Variant, other: Variant) -> bool:
		return ascii_json(one) == ascii_json(other)

	# null if the text is not JSON, or has too many levels.
	static func parsed(text: String) -> Variant:
		return null if too_deep(text) else Platform.parsed(text)

	# More than 64 levels, which no answer of the protocol has. The engine's parser is recursive, and would end the game.
	static func too_deep(text: String) -> bool:
		var depth := 0
		var parts := text.replace("\\\\", "").replace('\\"', "").split('"')
		for i in range(0, parts.size(), 2):
			for letter: String in parts[i].lstrip(",: "):  # String.count would copy the rest of the text at every bracket
				if letter == "[" or letter == "{":
					depth += 1
				elif letter == "]" or letter == "}":
					depth -= 1
				if depth > 64:
					return true
		return false

	# Result of a list of the values of these, or the first error.
	static func all(results: Array) -> Result:
		var found := []
		for each: Result in results:
			if each.error:
				return each
			found.append(each.value)
		return Result.ok(found)

	# The first match of a regular expression; null if there is none.
	static func matched(pattern: String, text: String) -> RegExMatch:
		var compiled := RegEx.new()
		compiled.compile(pattern)
		return compiled.search(text)

	# Random letters for names of files; not secret.
	static func token() -> String:
		var random := RandomNumberGenerator.new()
		random.randomize()
		return "%08x%08x" % [random.randi(), random.randi()]

	# Takes the browser's lock for this game's folder, which all tabs share; the page keeps it until it is closed.
	static func hold_tab() -> void:
		Platform.in_page(HOLD_TAB % Platform.json("gamed " + OS.get_user_data_dir()))

	# True if another tab had the lock when this page last asked.
	static func other_tab() -> bool:
		var found: bool = Platform.in_page("window.gamedTab") == "other"
		hold_tab()
		return found

	# True for the first part of a name that Windows takes for a device.
	static func is_device(stem: String) -> bool:
		if stem in ["con", "prn", "aux", "nul", "conin$", "conout$"]:
			return true
		return stem.length() == 4 and stem.substr(0, 3) in ["com", "lpt"] and stem[3] in DIGITS + "\u00b9\u00b2\u00b3"


# --- Addresses --------------------------------------------------------------------------------------------------------


## Scheme, host and port, by which a player knows a server. https, or http on this machine only.
class Origin:
	const LOOPBACK = ["localhost", "127.0.0.1", "::1"]
	const PORTS = {"https": 443, "http": 80}
	const PATTERN = (  # a `number` is an IPv6 address
		"(?s)^(?<scheme>[Hh][Tt][Tt][Pp][Ss]?)://"
		+ "(?:(?<name>[A-Za-z0-9._-]+)|\\[(?<number>[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*)\\])"
		+ "(?::(?<port>[0-9]{1,5}))?(?<rest>[/?#].*)?\\z"
	)

	var scheme: String = ""  ## https, or http on this machine only.
	var host: String = ""  ## In lower case.
	var port: int = 0  ## Also if it is the scheme's own.

	## Parses the player's input: `play.example.org`, `https://play.example.org:8443`, `http://127.0.0.1:8080`.
	static func entered(address: String) -> Result:
		address = address.strip_edges()
		if address.find("://") < 0:
			var guess := _split("https://" + address)
			if guess.error:
				return guess
			address = ("http://" if guess.value.host in LOOPBACK else "https://") + address
		var made := _split(address)
		if made.error == null and not path_of(address) in ["", "/"]:
			return _untrusted("Enter only the name of the server: %s" % made.value.text())
		return made

	## Parses a URL of a server; an unusual one is refused, not repaired.
	static func of(url: String) -> Result:
		if not Tools.only(url, Tools.ALPHANUMERIC + "._~:/?#[]@!$&()*+,;=%-", 2048):
			return _untrusted("The link has characters that do not belong in one.")
		return _split(url)

	## The path of a URL, with its query.
	static func path_of(url: String) -> String:
		var found := Tools.matched(PATTERN, url)
		return found.get_string("rest") if found else ""

	static func _untrusted(detail: String) -> Result:
		return Result.wrong("untrusted_address", detail)

	static func _split(url: String) -> Result:
		var found := Tools.matched(PATTERN, url)
		if found == null:
			return _untrusted("That is not the address of a server.")
		var made := Origin.new()
		made.scheme = found.get_string("scheme").to_lower()
		made.host = (found.get_string("name").rstrip(".") + found.get_string("number")).to_lower()
		made.port = int(found.get_string("port")) if found.get_string("port") != "" else PORTS[made.scheme]
		var labels := Array(made.host.split("."))
		var valid := made.host.is_valid_ip_address() if ":" in made.host else not "" in labels
		if not valid or made.port < 1 or made.port > 65535:
			return _untrusted("That is not the address of a server.")
		if made.scheme == "http" and not made.host in LOOPBACK:
			return _untrusted("%s needs https://, so that others cannot listen in." % made.host)
		return Result.ok(made)

	## The origin as in a URL, without the scheme's own port.
	func text() -> String:
		return "%s://%s" % [scheme, authority()]

	## The host, with the port if it is not that of the scheme.
	func authority() -> String:
		var name := "[%s]" % host if ":" in host else host
		return name if port == PORTS[scheme] else "%s:%d" % [name, port]

	## `url`, if it is one of this server: a server must not send its players' browsers to another one.
	func require(url: String) -> Result:
		var other := of(url)
		if other.error:
			return other
		if other.value.text() != text():
			var words := "%s sends you to %s. If that is its true address, enter that one instead."
			return _untrusted(words % [text(), other.value.text()])
		return Result.ok(url)


# --- The wire ---------------------------------------------------------------------------------------------------------


class Answer:
	var status: int = 0
	var headers: Dictionary = {}  # names in lower case
	var body := PackedByteArray()

	# The head of the answer that is arriving.
	static func begun(http: HTTPClient) -> Answer:
		var made := Answer.new()
		made.status = http.get_response_code()
		for line: String in http.get_response_headers():
			var colon := line.find(":")
			var name := line.substr(0, colon).strip_edges().to_lower()
			var value := line.substr(colon + 1, line.length()).strip_edges()
			var more := made.headers.has(name)
			made.headers[name] = "%s, %s" % [made.headers[name], value] if more else value
		return made

	# True if that many bytes are all of the body. `ended`: the server has said so in its last chunk.
	func is_whole(method: String, size: int, ended: bool) -> bool:
		if method == "HEAD" or status in [204, 304] or Platform.is_web():
			return true
		var length: String = headers.get("content-length", "")
		return size == int(length) if Tools.only(length, Tools.DIGITS, 15) else ended

	func media_type() -> String:
		return headers.get("content-type", "").split(";")[0].strip_edges().to_lower()

	func json() -> Result:
		var text := body.get_string_from_utf8()
		var trimmed := text.strip_edges()  # the engine's parser ignores what follows the object
		var value: Variant = Tools.parsed(text) if trimmed.begins_with("{") and trimmed.ends_with("}") else null
		if value is Dictionary:
			return Result.ok(value)
		return Result.failed(GamedError.new("not_gamed", "The server's answer is not a JSON object.", status))


# Checks that the bytes of an answer are those the server hashed (`Repr-Digest`, RFC 9530).
class DigestCheck:
	func checked(answer: Answer) -> Result:
		var named := hash_in(answer)
		if named == "":
			return Tools.lacks("Repr-Digest")
		if named != Marshalls.raw_to_base64(Tools.hash_of(answer.body)):
			return Result.wrong("download_corrupt", "The answer arrived damaged.")
		return Result.ok(answer)

	# In Base64; "" if the answer has none.
	static func hash_in(answer: Answer) -> String:
		var named: PackedStringArray = answer.headers.get("repr-digest", "").split("sha-256=:")
		return named[1].split(":")[0] if named.size() == 2 else ""


# A successful Answer, or a GamedError. Passing failures are tried again, so give only requests that may arrive twice.
# `how`: json, body, headers, bearer, check (checks an answer as part of a try), limit in bytes, timeout in seconds for
# each step on the network, tries, longest_pause between two of them in seconds, sink (takes the bytes of a success as
# they come: Part in gamed_assets.gd), last (a closed client sends it, too).
func _request(method: String, path: String, how: Dictionary = {}) -> Result:
	var _me := self  # keeps this object until the coroutine ends, also if the game drops it
	if problem or _is_over(how):
		await Platform.frame()
		return Result.failed(problem if problem else _unreachable(NO_ANSWER))
	var body: PackedByteArray = how.get("body", PackedByteArray())
	var fields := Platform.host_fields(origin.authority())
	fields["User-Agent"] = "%s/%s gamed-client/%s" % [app.replace(" ", "-"), app_version, VERSION]
	fields["Accept"] = "*/*"  # without "Connection: close", after which the last bytes of an answer can be lost
	var extra: Dictionary = how.get("headers", {})
	for field: String in extra:
		fields[field] = extra[field]
	if how.has("json"):
		body = Tools.ascii_json(how["json"]).to_ascii_buffer()
		fields["Content-Type"] = "application/json"
	if how.get("bearer") != null:
		fields["Authorization"] = "Bearer %s" % how["bearer"]
	if body.size() > 0 or method in ["POST", "PUT", "PATCH"]:
		fields["Content-Length"] = str(body.size())
	var lines := PackedStringArray()
	for field: String in fields:
		if fields[field] != "" and not Tools.only(fields[field], Tools.VISIBLE + " \""):
			await Platform.frame()
			return Result.wrong("invalid_header", "%s has characters that a header cannot carry." % field)
		lines.append("%s: %s" % [field, fields[field]])
	var lost := false
	var attempt := 0
	var result: Result
	while true:
		result = await _once(method, path, lines, body, how)
		if result.error == null and how.get("check") != null:
			result = how["check"].checked(result.value)
		if result.error == null:
			break
		result.error.answer_lost_before = lost
		if not await _paused_after(result.error, attempt, how):
			break
		lost = lost or result.error.kind == "Unreachable"
		if _is_over(how):
			return Result.failed(_unreachable(NO_ANSWER))
		attempt += 1
	return result


# Pauses before the next try of a call, with `how` as for `_request`; false at once if there is none.
func _paused_after(error: GamedError, attempt: int, how: Dictionary) -> bool:
	var _me := self
	var seconds := pause_after(error, attempt)
	var longest: float = how.get("longest_pause", LONGEST_PAUSE_SECONDS)
	if not error.passing or attempt + 1 == how.get("tries", _tries) or seconds > longest or _is_over(how):
		return false
	_root_client().paused.emit(seconds)
	var end := Time.get_ticks_msec() + seconds * 1000 * pauses
	while Time.get_ticks_msec() < end and not is_closed():
		await Platform.frame()
	return true


func _is_over(how: Dictionary) -> bool:
	return is_closed() and not how.get("last", false)


# True if a step on the network that had its last success at `since` has to end.
func _must_end(since: int, how: Dictionary) -> bool:
	return Time.get_ticks_msec() - since > how.get("timeout", timeout_seconds) * 1000 or _is_over(how)


# Makes one try, without redirects, cookies and proxies.
func _once(method: String, path: String, lines: PackedStringArray, body: PackedByteArray, how: Dictionary) -> Result:
	var http := HTTPClient.new()
	http.read_chunk_size = SLICE_BYTES
	var result := await _connected(http, how)
	if result.error == null:
		result = await _sent(http, METHODS.find(method), path, lines, body, how)
	if result.error == null:
		result = await _taken(http, method, how)
	http.close()
	if result.error == null and (result.value.status < 200 or result.value.status > 299):
		return Result.failed(GamedError.of(result.value))
	return result


func _connected(http: HTTPClient, how: Dictionary) -> Result:
	var secure := origin.scheme == "https"
	var host: String = origin.host if secure else Platform.LOOPBACK.get(origin.host, origin.host)
	var error := Platform.connect_http(http, host, origin.port, secure)
	var since := Time.get_ticks_msec()
	while true:
		await Platform.frame()
		if error == OK:
			http.poll()
		if not http.get_status() in [HTTPClient.STATUS_RESOLVING, HTTPClient.STATUS_CONNECTING]:
			break
		if _must_end(since, how):
			return Result.failed(_unreachable(NO_ANSWER))
	if http.get_status() == HTTPClient.STATUS_TLS_HANDSHAKE_ERROR:
		return Result.wrong("untrusted_certificate", "%s cannot prove that it is %s." % [origin.text(), origin.host])
	var ready := http.get_status() == HTTPClient.STATUS_CONNECTED and not _is_over(how)
	return Result.ok() if ready else Result.failed(_unreachable(NO_ANSWER))


# Sends a request until the head of the answer is here: a server that refuses an upload answers before it has read all
# of it, and that answer counts.
func _sent(
	http: HTTPClient, method: int, path: String, lines: PackedStringArray, body: PackedByteArray, how: Dictionary
) -> Result:
	var web := Platform.is_web()  # there the browser sends, and sets the length
	if http.request_raw(method, path, lines, body if web else PackedByteArray()) != OK:
		return Result.failed(_unreachable(NO_ANSWER))
	var begin := body.size() if web else 0
	if not web:
		http.poll()  # the engine sends the head; the body follows by hand, so that an early answer is read
	var since := Time.get_ticks_msec()
	while true:
		var frame := Time.get_ticks_usec()
		while begin < body.size() and Time.get_ticks_usec() - frame < FRAME_USEC:
			var slice := Platform.slice(body, begin, int(min(begin + SLICE_BYTES, body.size())))
			var wrote := http.get_connection().put_partial_data(slice)
			begin = body.size() if wrote[0] != OK else begin + wrote[1]  # the server reads no more; its answer may say why
			if wrote[1] == 0:
				break
			since = Time.get_ticks_msec()
		await Platform.frame()
		http.poll()
		if http.get_status() != HTTPClient.STATUS_REQUESTING:
			break
		if _must_end(since, how):
			return Result.failed(_unreachable(NO_ANSWER))
	return Result.ok() if http.has_response() else Result.failed(_unreachable(NO_ANSWER))


# Result of the Answer to a request that was sent: all of it, or an error, never the first part of one that broke off.
func _taken(http: HTTPClient, method: String, how: Dictionary) -> Result:
	var answer := Answer.begun(http)
	var chunked := http.is_response_chunked()
	var limit: int = how.get("limit", MAX_JSON_BYTES) if answer.status < 300 else MAX_JSON_BYTES
	var sink: Variant = how.get("sink") if answer.status in [200, 206] else null
	var error: GamedError = sink.begin(answer) if sink else null
	var body := PackedByteArray()
	var size := 0
	var since := Time.get_ticks_msec()
	var frame := Time.get_ticks_usec()
	while error == null and http.get_status() == HTTPClient.STATUS_BODY:
		var part := http.read_response_body_chunk()
		size += part.size()
		if size > limit:
			error = GamedError.new("not_gamed", "The server's answer is larger than any expected here.")
		elif part.size() == 0:
			http.poll()  # updates the status of the connection
		elif sink:
			error = sink.take(part)
		else:
			body.append_array(part)
		since = Time.get_ticks_msec() if part.size() > 0 else since
		var waits := part.size() == 0 or Time.get_ticks_usec() - frame > FRAME_USEC
		if waits and error == null and http.get_status() == HTTPClient.STATUS_BODY:
			if _must_end(since, how):
				return Result.failed(_unreachable("stopped answering"))
			await Platform.frame()
			frame = Time.get_ticks_usec()
	answer.body = body
	var ended := chunked and http.get_status() == HTTPClient.STATUS_CONNECTED
	if error == null and not answer.is_whole(method, size, ended):
		error = _unreachable("broke off its answer")
	return Result.failed(error) if error else Result.ok(answer)


# The error of a request without an answer; another one if that is because the call had to end.
func _unreachable(what: String) -> GamedError:
	if _cancellation.cancelled:
		return GamedError.new("cancelled", "This was cancelled.")
	return GamedError.new("closed" if is_closed() else "unreachable", "%s %s." % [origin.text(), what])


## Seconds before the next try: the server's Retry-After, else doubling; random, so that clients do not retry together.
static func pause_after(error: GamedError, attempt: int) -> float:
	var random := RandomNumberGenerator.new()
	random.randomize()
	if error.retry_after != null:
		return error.retry_after + random.randf_range(0, min(error.retry_after, 3.0) + 0.1)
	return random.randf_range(0.1, min(8.0, 0.5 * pow(2, attempt)))


# --- What is kept between runs ----------------------------------------------------------------------------------------


## One sign-in of one player at one server.
class Credential:
	const MEMBERS = ["origin", "player_id", "session_id", "provider", "refresh_credential", "access_token"]

	var origin: String = ""  ## The server that has issued it.
	var player_id: String = ""  ## The player, at this server.
	var session_id: String = ""  ## The session, as `list_sessions` names it.
	var provider: String = ""  ## The provider of the sign-in.
	var refresh_credential: String = ""  ## A secret: never log it.
	var access_token: String = ""  ## A secret: never log it.
	var access_expires: float = 0.0  ## seconds since 1970 by this machine's clock
	var access_lifetime: Variant = null  ## seconds; null in files that older versions of this client wrote
	var player_name: Variant = null  ## the name that games show, as the server sent it last; null without one

	## True if the access token can be used at `now` without a refresh.
	func fresh(now: float) -> bool:
		var share: float = EARLY_SECONDS if access_lifetime == null else access_lifetime * EARLY_SHARE
		return now < access_expires - min(EARLY_SECONDS, share)

	## As it is kept on the disk.
	func to_json() -> String:
		var value := {"access_expires": access_expires, "access_lifetime": access_lifetime, "player_name": player_name}
		for name: String in MEMBERS:
			value[name] = get(name)
		return Tools.ascii_json(value)

	## The name of a player in an answer; null without one.
	static func name_of(player: Dictionary, member: String = "name") -> Variant:
		return player[member] if player.get(member) is String else null

	## null if the text is not a credential of this client.
	static func of(text: String) -> Credential:
		var value: Variant = Tools.parsed(text)
		if not value is Dictionary or not typeof(value.get("access_expires")) in [TYPE_FLOAT, TYPE_INT]:
			return null
		var made := Credential.new()
		made.access_expires = value["access_expires"]
		if not typeof(value.get("access_lifetime")) in [TYPE_NIL, TYPE_FLOAT, TYPE_INT]:
			return null
		made.access_lifetime = value.get("access_lifetime")
		made.player_name = Credential.name_of(value, "player_name")
		for name: String in MEMBERS:
			if not value.get(name) is String:
				return null
			made.set(name, value[name])
		return made


# The disk of this device. Paths may begin with user://
class Disk:
	# Makes a folder that only this user can open. On Windows and phones user:// already belongs to the user or the app.
	static func private_folder(path: String) -> bool:
		var missing := []
		while not Platform.has_folder(path) and path.get_base_dir() != path:
			missing.push_front(path)
			path = path.get_base_dir()
		for each: String in missing:
			if not Platform.make_folder(each):
				return Platform.has_folder(each)
			_run("chmod", ["700", ProjectSettings.globalize_path(each)])
		return true

	# The file has the old bytes or the new ones, even if this process is killed.
	static func write_whole(path: String, data: PackedByteArray) -> bool:
		return _write_new(path, data) and _replace(path)

	# The same, and the file has the new bytes also after a power cut, where a Flush waits for the disk. A secret's file is
	# closed to other users before the secret is written. A coroutine.
	static func keep(path: String, data: PackedByteArray, secret: bool = false) -> bool:
		if secret and _write_new(path, PackedByteArray()):
			_run("chmod", ["600", ProjectSettings.globalize_path(path + ".new")])
		var written := _write_new(path, data)
		await flushed([path + ".new"] if written else [])
		written = written and _replace(path)
		await flushed([path.get_base_dir()] if written else [])
		return written

	# Writes the bytes into a file beside that one.
	static func _write_new(path: String, data: PackedByteArray) -> bool:
		var file := Platform.open(path + ".new", FileAccess.WRITE)
		if file == null:
			return false
		file.store_buffer(data)
		file.close()
		if size_of(path + ".new") == data.size():
			return true
		remove(path + ".new")  # the disk is full, and this part must not keep it full
		return false

	static func _replace(path: String) -> bool:
		var done := Platform.rename(path + ".new", path)
		if not done and size_of(path) >= 0:
			remove(path + ".new")  # without the old file, `read` finds this one at the next start
		return done

	# Opens a file for more bytes behind those that it has, or without any; null if it cannot be opened.
	static func open_end(path: String, with_bytes: bool) -> FileAccess:
		var file := Platform.open(path, FileAccess.READ_WRITE if with_bytes else FileAccess.WRITE)
		if file:
			file.seek_end()
		return file

	# null if the file is missing. On a system that cannot rename over a file in one step, `<path>.new` may have the bytes.
	static func read(path: String) -> Variant:
		var file := Platform.open(path, FileAccess.READ) if Platform.has_file(path) else null
		return file.get_buffer(file.get_length()) if file else null

	# "" if the file is missing.
	static func read_text(path: String) -> String:
		var data: Variant = read(path)
		return data.get_string_from_utf8() if data != null else ""

	static func size_of(path: String) -> int:
		var file := Platform.open(path, FileAccess.READ) if Platform.has_file(path) else null
		return file.get_length() if file else -1

	static func remove(path: String) -> bool:
		return Platform.remove(path) if Platform.has_file(path) else true

	# Removes a file, or a folder with all that is in it.
	static func remove_all(path: String) -> void:
		for name: String in Platform.names(path):
			remove_all(path + "/" + name)
		Platform.remove(path)

	# True once the files are on the disk, also after a power cut; true, too, on a system without a command for that. A
	# coroutine: a thread waits for the disk. Its callers keep their object meanwhile.
	static func flushed(paths: Array) -> bool:
		if paths.size() == 0 or not flushes():
			return true
		var flush := Flush.new(paths)
		while not flush.over:
			await Platform.frame()
		flush.join()
		return flush.done

	# The first line of a file of the system; "" on another one than Linux.
	static func system_line(path: String) -> String:
		var file := Platform.open(path, FileAccess.READ) if Platform.system() == "linux" else null
		return file.get_line() if file else ""

	# True if a Flush waits for the disk here.
	static func flushes() -> bool:
		return Platform.system() == "linux"

	# Runs a program of the system; its arguments are only paths and numbers.
	static func _run(program: String, arguments: Array, output: Array = []) -> bool:
		var known := Platform.system() in Platform.UNIX or program == "tasklist"
		return known and Platform.execute(program, arguments, output)


# A flush in a thread: the frames of the game go on. `over` is set at its end, and `done` if it has succeeded.
class Flush:
	var over: bool = false
	var done: bool = false
	var _paths: Array = []
	var _thread := Thread.new()

	func _init(paths: Array) -> void:
		_paths = paths
		if not Platform.start(_thread, self, "_run"):
			_run()

	func _run(_nothing: Variant = null) -> void:
		var names := []
		for path: String in _paths:
			names.append(ProjectSettings.globalize_path(path))
		done = not Disk.flushes() or Disk._run("sync", names)
		over = true

	# Waits for the end.
	func join() -> void:
		if _thread.is_started():
			_thread.wait_to_finish()

	func _notification(what: int) -> void:
		if what == NOTIFICATION_PREDELETE and _thread.is_started():
			_thread.wait_to_finish()


# A lock between processes, and between objects of one: each makes a file of its own, and then lists the others' files.
# The file of a dead process is removed. The engine has no lock of files, and a clock could be wrong.
class Claim:
	var _path: String = ""

	static func take(folder: String, name: String) -> Claim:
		var made := mark(folder, name)  # if that fails, the later write fails, too, and has an error
		for other: String in Platform.names(folder):
			var path := folder + "/" + other
			if other.begins_with(name + ".lock-") and path != made._path:
				if lives(other.substr(name.length() + 6, other.length()).split("-")[0]):
					made.drop()
					return null
				Disk.remove(path)
		return made

	# Makes a file that does not exclude others.
	static func mark(folder: String, name: String) -> Claim:
		var made := Claim.new()
		made._path = "%s/%s.lock-%s-%s" % [folder, name, process(OS.get_process_id()), Tools.token()]
		Platform.open(made._path, FileAccess.WRITE)
		return made

	# Lists the names that living processes have marked, and removes those of dead ones.
	static func marked(folder: String) -> Array:
		var found := []
		for each: String in Platform.names(folder):
			var halves := each.split(".lock-")
			if halves.size() == 2 and lives(halves[1].split("-")[0]):
				found.append(halves[0])
			else:
				Disk.remove(folder + "/" + each)
		return found

	func drop() -> void:
		if _path != "":
			Disk.remove(_path)
		_path = ""

	func _notification(what: int) -> void:
		if what == NOTIFICATION_PREDELETE and _path != "":
			Platform.remove(_path)

	# `<pid>.<start time>`, because the system gives a pid again. Only Linux has the start time in a file; elsewhere a
	# random word replaces that of this process, because a page in a browser has the same pid each time.
	static func process(pid: int) -> String:
		var line := Disk.system_line("/proc/%d/stat" % pid)
		if line == "":
			return "%d.%s" % [pid, _run() if pid == OS.get_process_id() else ""]
		var rest := line.substr(line.rfind(")") + 2, line.length()).split(" ")
		return "%d.%s" % [pid, rest[19] if rest.size() > 19 and rest[0] != "Z" else ""]

	static func _run() -> String:
		if not Engine.has_meta("gamed_run"):
			Engine.set_meta("gamed_run", Tools.token())
		return Engine.get_meta("gamed_run")

	static func lives(whose: String) -> bool:
		var pid := int(whose.split(".")[0])
		if pid == OS.get_process_id():
			return whose == process(pid) or Tools.other_tab()
		match Platform.system():
			"linux":
				return whose == process(pid)
			"macos":
				return Disk._run("ps", ["-p", str(pid)])
			"windows":
				var output := []
				Disk._run("tasklist", ["/NH", "/FI", "PID eq %d" % pid], output)
				return str(output).find(" %d " % pid) >= 0
		return false  # elsewhere a game runs once


# The credential of one origin, in a file that only this user can read. Take its Claim before you change it.
class CredentialFile:
	var folder: String = ""
	var place: String = ""
	var path: String = ""
	var _origin: String = ""

	func _init(the_folder: String, origin: Origin) -> void:
		folder = the_folder
		_origin = origin.text()
		place = "%s-%s" % [origin.host.replace(":", "_"), _origin.sha256_text().substr(0, 12)]
		path = "%s/%s.json" % [folder, place]

	func read() -> Credential:
		for name: String in [path, path + ".new"]:
			var kept := Credential.of(Disk.read_text(name))
			if kept and kept.origin == _origin:
				return kept
		return null

	# A coroutine.
	func write(credential: Credential) -> bool:
		var _me := self
		Disk.private_folder(folder)
		return await Disk.keep(path, credential.to_json().to_ascii_buffer(), true)

	func delete() -> void:
		Disk.remove(path + ".new")
		Disk.remove(path)


# Waits until no other process changes the credential, at most 60 s. The server accepts a second refresh with the same
# credential only for 30 s. A cancelled client waits no longer, and a closed one only `patiently`: both may lack the
# lock then, and change nothing.
func _claimed(patiently: bool = false) -> Claim:
	var _me := self
	Disk.private_folder(folder)
	var end := Time.get_ticks_msec() + 60000
	while true:
		var claim := Claim.take(folder, _file.place)
		if claim:
			return claim
		if Time.get_ticks_msec() > end or _cancellation.cancelled or (is_closed() and not patiently):
			break
		var again := Time.get_ticks_msec() + 20 + randi() % 60
		while Time.get_ticks_msec() < again:
			await Platform.frame()
	return Claim.new()


# --- The sign-in ------------------------------------------------------------------------------------------------------


# A `ticket` or a `finish_code`: it proves that browser and client belong together.
class Proof:
	var kind: String = ""
	var text: String = ""
	var answered: bool = false
	var replied: bool = false

	func _init(the_kind: String, the_text: String) -> void:
		kind = the_kind
		text = the_text


# Receives the browser's return: 127.0.0.1, a random port, one path, one login (docs/protocol.md, Signing in).
class ReturnListener:
	var port: int = 0
	var login_id: String = ""
	var done_url: String = ""
	var proofs: Array = []  # those of the sign-in, which collects them
	var open: bool = true
	var _server := TCPServer.new()

	# False if this platform cannot listen.
	func listen() -> bool:
		port = Platform.listen(_server)
		if port != 0:
			_serve()
		return port != 0

	func _serve() -> void:
		var _me := self  # keeps this object until the browser has its answer, after the sign-in
		while open:
			if _server.is_connection_available():
				_answer(_server.take_connection())
			await Platform.frame()
		_server.stop()

	func _answer(peer: StreamPeerTCP) -> void:
		var head := PackedByteArray()
		var end := Time.get_ticks_msec() + 10000
		while head.get_string_from_ascii().find("\r\n\r\n") < 0:
			Platform.poll(peer)
			if head.size() > 8192 or Time.get_ticks_msec() > end or peer.get_status() != StreamPeerTCP.STATUS_CONNECTED:
				peer.disconnect_from_host()
				return
			var waiting := peer.get_available_bytes()
			if waiting > 0:
				head.append_array(peer.get_data(int(min(waiting, 8192)))[1])
			else:
				await Platform.frame()
		var ticket: Variant = _ticket(head.get_string_from_ascii())
		if ticket == null:  # a ticket of another login, or none
			_reply(peer, "404 Not Found", "")
			return
		var proof := Proof.new("ticket", ticket)
		proofs.append(proof)
		end = Time.get_ticks_msec() + RETURN_SECONDS * 1000
		while not proof.answered and Time.get_ticks_msec() < end:
			await Platform.frame()
		_reply(peer, "303 See Other", "Location: %s?login_id=%s\r\n" % [done_url, login_id.uri_encode()])
		await Platform.frame()
		proof.replied = true

	# The ticket of `GET /gamed/return?login_id=...&ticket=...` for this login; else null.
	func _ticket(head: String) -> Variant:
		var lines := head.split("\r\n")
		var first := lines[0].split(" ")
		var hosts := []
		for i in range(1, lines.size()):
			if lines[i].to_lower().begins_with("host:"):
				hosts.append(lines[i].substr(5, lines[i].length()).strip_edges())
		if first.size() != 3 or first[0] != "GET" or hosts != ["127.0.0.1:%d" % port]:
			return null
		var halves := first[1].split("?")
		return ticket_in(halves[1], login_id) if halves.size() == 2 and halves[0] == "/gamed/return" else null

	# The ticket in `login_id=...&ticket=...`, if it is one of this login; else null. Neither has a character that an
	# address would encode, and one that is encoded is refused.
	static func ticket_in(query: String, login_id: String) -> Variant:
		if login_id == "" or query.count("&") > 8:
			return null
		var values := {}
		for pair: String in query.split("&"):
			var name := pair.split("=")[0]
			if values.has(name):
				return null
			values[name] = pair.substr(name.length() + 1, pair.length())
		var ticket: String = values.get("ticket", "")
		if values.get("login_id") != login_id or not Tools.only(ticket, Tools.BASE64URL, 256):
			return null
		return ticket

	# Answers, and keeps the connection until the browser has read that and closes it.
	func _reply(peer: StreamPeerTCP, status: String, more: String) -> void:
		var head := "HTTP/1.1 %s\r\n%sContent-Length: 0\r\nCache-Control: no-store\r\n" % [status, more]
		head += "Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
		peer.put_data(head.to_ascii_buffer())
		var end := Time.get_ticks_msec() + 2000
		while Time.get_ticks_msec() < end and peer.get_status() == StreamPeerTCP.STATUS_CONNECTED:
			Platform.poll(peer)
			await Platform.frame()
		peer.disconnect_from_host()


## One login: start, browser, return proof, collect. `run` it once; `cancel` at any time.
class SignIn:
	var stage: String = ""  ## waiting_for_browser, at_provider, exchanging or proof_required (protocol)
	var _client: GamedClient
	var _person: Object
	var _provider: Variant
	var _options: Dictionary = {}
	var _intent: String = "login"
	var _proofs: Array = []
	var _listener: ReturnListener = null
	var _asked: bool = false
	var _cancelled: bool = false
	var _over: bool = false
	var _deadline: int = 0
	var _login: Dictionary = {}  # what the server has answered
	var _poll_path: String = ""

	# options: those of `sign_in`, and intent: login, adopt, link.
	func _init(client: GamedClient, person: Object, options: Dictionary) -> void:
		_client = client
		_person = person
		_provider = options.get("provider")
		_options = options
		_intent = options.get("intent", "adopt" if options.get("adopt", false) else "login")

	## Result of the Credential, which is on disk then; for a link that of the provider. Any failure cancels the login.
	func run() -> Result:
		var _me := self
		var result := await _run()
		_over = true
		if _listener:
			_listener.open = false
		if result.error and not result.error.is_a("LoginFailed"):
			await cancel()
		return result

	## After this no credential of the login works; `run` ends with login_cancelled.
	func cancel() -> void:
		var _me := self
		_cancelled = true
		if _login.size() > 0:
			var how := {"bearer": _login["device_secret"], "timeout": 5, "tries": 1, "last": true}
			await _client._root_client()._request("POST", "/auth/login/cancel", how)

	## For "Show me a code": opens the page that shows it, unless the sign-in is over.
	func show_code() -> void:
		if not _over:
			_show()

	## Passes the address that the app was opened with; true if it belongs to this sign-in.
	func returned(url: String) -> bool:
		var uri: Variant = _options.get("return_uri")
		var begin: String = "" if uri == null else uri + ("&" if "?" in uri else "?")
		var ticket: Variant = null
		if begin != "" and url.length() <= 2048 and url.begins_with(begin):
			ticket = ReturnListener.ticket_in(url.substr(begin.length(), url.length()), _login.get("login_id", ""))
		if ticket != null:
			var proof := Proof.new("ticket", ticket)
			proof.replied = true  # no browser waits for an answer
			_proofs.append(proof)
		return ticket != null

	func _run() -> Result:
		var begun := await _choose()
		if begun.error == null:
			begun = await _start()
		if begun.error:
			return begun
		if _cancelled:
			await cancel()  # the server has just made the login
			return _cancellation()
		_show()
		var complete := await _settle()
		if complete.error:
			return complete
		if _intent == "link":
			return Tools.member(Tools.member(complete, "linked", "object"), "provider", "text")
		return await _client.keep(complete.value)

	# Asks the player if the server has several providers; one in `local` mode has none.
	func _choose() -> Result:
		if _intent == "link" and _provider != null:
			return Result.ok()
		var listed := await _client.providers()
		if listed.error or _provider != null or listed.value.size() == 0:
			return listed
		_provider = listed.value[0]["name"] if listed.value.size() == 1 else null
		if _provider == null and _person.has_method("choose_provider"):
			var chosen: Variant = await _person.choose_provider(listed.value)
			_provider = chosen
		return Result.ok() if _provider is String and not _cancelled else _cancellation()

	static func _cancellation() -> Result:
		return Result.wrong("login_cancelled", "The sign-in was cancelled.")

	func _start() -> Result:
		var body := {"client": _client._device()}
		if _client.language() != "":
			body["locale"] = _client.language()
		if _provider != null:
			body["provider"] = _provider
		if _intent != "login":
			body["intent"] = _intent
		var held := _client.credential()
		if held != null and held.session_id == _client._root_client()._too_old:
			body["confirm"] = true
		if _options.get("return_uri") != null:
			body["return_uri"] = _options["return_uri"]
		elif _options.get("loopback", not Platform.is_web()):
			_listener = ReturnListener.new()
			_listener.proofs = _proofs
			_listener.done_url = _client.origin.text() + "/auth/login/done"
			if _listener.listen():
				body["loopback_port"] = _listener.port
		var how := {"json": body}
		if _intent == "link":
			return _started(await _client._game_json("POST", "/auth/login", how))
		return _started(Tools.json(await _client._request("POST", "/auth/login", how)))

	func _started(answer: Result) -> Result:
		var types := {"device_secret": "text", "expires_in": "number", "login_url": "text", "login_id": "text"}
		types["poll"] = {"url": "text", "max_wait": "number"}
		types["qr_url"] = ["text", null]
		types["return_proof"] = ["text", ""]
		var found := Tools.members(answer, types)
		if found.error:
			return found
		_login = found.value
		_deadline = Time.get_ticks_msec() + (_login["expires_in"] + 30) * 1000
		for url: String in [_login["login_url"], _login["poll"]["url"]]:
			var trusted := _client.origin.require(url)
			if trusted.error:
				return trusted
		if _login["qr_url"] != null and _client.origin.require(_login["qr_url"]).error:
			_login["qr_url"] = null
		_poll_path = Origin.path_of(_login["poll"]["url"]).split("?")[0].split("#")[0]
		if _listener:
			_listener.login_id = _login["login_id"]
		return Result.ok()

	func _show() -> void:
		var url: String = _login["login_url"]
		var own: bool = _person.has_method("open_browser")
		var opened: bool = _person.open_browser(url) if own else _client.open_browser(url)
		if _person.has_method("browser_opened"):
			_person.browser_opened(url, opened, _login["qr_url"])

	# Collects until the login has ended. A lost answer loses nothing: the same proof is sent again.
	func _settle() -> Result:
		stage = "waiting_for_browser"
		var proof: Proof = null
		var answer := Result.new()
		while answer.error == null:
			answer = await _collect(proof)
			if answer.error and answer.error.kind == "InvalidProof":
				var left := answer.error.attempts_left()
				answer = await _collect(null)
				if proof and proof.kind == "finish_code" and left > 0:
					_ask_for_code(left)
			if proof:
				proof.answered = true
			if answer.error:
				break
			var value: Dictionary = answer.value
			if Tools.text(value, "status") == "complete":
				if proof and proof.kind == "ticket":
					await _until_replied(proof)
				return answer
			if Tools.text(value, "status") == "failed":
				return Result.failed(GamedError.of_login(value.get("problem")))
			if not value.get("stage") is String:
				return Tools.lacks("stage")
			stage = value["stage"]
			proof = null
			if stage == "proof_required":
				proof = await _await_proof()
		return answer

	# The browser gets its answer before this process may end.
	func _until_replied(proof: Proof) -> void:
		var end := Time.get_ticks_msec() + 1000
		while not proof.replied and Time.get_ticks_msec() < end:
			await Platform.frame()

	# Gets one answer of collect, with as many tries as the login's lifetime allows.
	func _collect(proof: Proof) -> Result:
		var wait := 0 if proof or stage == "proof_required" else int(min(_login["poll"]["max_wait"], 25))
		var body := {"wait": wait, "seen": stage}
		if proof:
			body[proof.kind] = proof.text
		var timeout := wait + _client.timeout_seconds
		var how := {"json": body, "bearer": _login["device_secret"], "timeout": timeout, "tries": 1}
		var attempt := 0
		while not _cancelled:
			var answer: Result = await _client._request("POST", _poll_path, how)
			if answer.error == null:
				return answer.value.json()
			var until_then := {"tries": 0, "longest_pause": (_deadline - Time.get_ticks_msec()) / 1000.0}
			if not await _client._paused_after(answer.error, attempt, until_then):
				return answer
			attempt = int(min(attempt + 1, 6))
		return _cancellation()

	# Waits 5 s for the browser's return; null after that, and the player is asked for a code, once.
	func _await_proof() -> Proof:
		if _login["return_proof"] == "code":
			_ask_for_code(null)
		var end := Time.get_ticks_msec() + _client.return_seconds * 1000
		while Time.get_ticks_msec() < end and not (_cancelled or _client.is_closed()):
			if _proofs.size() > 0:
				return _proofs.pop_front()
			await Platform.frame()
		_ask_for_code(null)
		return null

	func _ask_for_code(attempts_left: Variant) -> void:
		if (attempts_left == null and _asked) or not _person.has_method("finish_code"):
			return
		_asked = true
		var shown: SignIn = null if _login["return_proof"] == "code" else self
		var code: Variant = await _person.finish_code(shown, attempts_left)
		if code != null and code != "":
			_proofs.append(Proof.new("finish_code", code))


## `BKTRVW` for a typed `bkt-rvw`; null for a text that cannot be a code, so that a typing error costs no attempt.
static func finish_code(typed: String) -> Variant:
	var letters := typed.strip_edges().replace("-", "").replace(" ", "").to_upper()
	return letters if letters.length() == 6 and Tools.only(letters, "BCDFGHJKLMNPQRSTVWXZ") else null


## Opens the player's browser, without a shell.
static func open_browser(url: String) -> bool:
	return OS.shell_open(url) == OK


## The game's language as a tag of BCP 47: "pt_BR.UTF-8" is "pt-BR"; "" for "C" and others that name no language.
func language() -> String:
	var pattern := "^[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8}){0,3}(?![A-Za-z0-9])"
	var found := Tools.matched(pattern, locale if locale != "" else OS.get_locale())
	return found.get_string().replace("_", "-") if found else ""


func _device() -> Dictionary:
	var host := Disk.system_line("/proc/sys/kernel/hostname")
	var called := ""
	for name: String in [device_name, OS.get_environment("COMPUTERNAME"), host, OS.get_model_name()]:
		called = called if called != "" else name.substr(0, 64)
	return {"name": app, "version": app_version, "platform": Platform.system(), "device_name": called}


# --- Saves ------------------------------------------------------------------------------------------------------------


## One version of one slot, a Dictionary: slot, version, etag, size, sha256, content_type, modified, meta, conflicts,
## device. A later write names its `etag` as the base.
class SaveInfo:
	## Parses one in an answer of the server; Result.
	static func of(value: Variant) -> Result:
		if not value is Dictionary:
			return Tools.lacks("save")
		var types := {
			"slot": "text", "version": "number", "etag": "text", "size": "number", "sha256": "text",
			"content_type": ["text", ""], "modified": ["text", ""], "meta": ["object", {}], "conflicts": ["list", []],
			"device": ["text", null],
		}
		var found := Tools.members(Result.ok(value), types)
		if found.error:
			return found
		var made: Dictionary = found.value
		if not _is_etag(made["etag"]) or not Tools.is_sha256(made["sha256"]):
			return Result.wrong("not_gamed", "The server's answer has a malformed 'etag' or 'sha256'.")
		if made["content_type"] == "":
			made["content_type"] = BINARY
		made["conflicts"] = Tools.filtered(made["conflicts"], "number")
		return Result.ok(made)

	static func _is_etag(text: String) -> bool:
		var inner := text.substr(1, text.length() - 2)
		return text == '"%s"' % inner and Tools.only(inner, Tools.VISIBLE, 100)

	## The SaveInfo of a member of an answer; null if it is not an object.
	static func maybe(value: Variant) -> Variant:
		return of(value).value if value is Dictionary else null


## The bytes of a slot with their description, from an answer.
static func save_of(answer: Answer) -> Dictionary:
	var meta: Variant = Tools.parsed(answer.headers.get("save-meta", "{}"))
	return {
		"etag": answer.headers.get("etag", ""),
		"data": answer.body,
		"content_type": answer.headers.get("content-type", ""),
		"meta": meta if meta is Dictionary else {},
	}


## Result of the path of a slot; a name is also safe as the name of a file, on Windows too.
static func path_of(slot: String) -> Result:
	if slot is String and Tools.only(slot, Tools.LOWER + "._-", 64) and slot[0] in Tools.LOWER:
		if not slot.ends_with(".") and not Tools.is_device(slot.split(".")[0]):
			return Result.ok("/game/saves/" + slot)
	return Result.wrong("invalid_slot", "A slot's name has 1-64 of a-z 0-9 . _ - and begins with a letter or digit.")


## The condition of a write. `base`: the version that was read or its etag, "*" for any version, null for an empty slot.
static func condition(base: Variant) -> Dictionary:
	if base == null:
		return {"If-None-Match": "*"}
	return {"If-Match": base if base is String else base["etag"]}


# --- The player -------------------------------------------------------------------------------------------------------


## The name of this server in names of files: its host, and a hash of its origin.
func place() -> String:
	return _file.place if _file else ""


## True if this device has a credential; sends no request.
func signed_in() -> bool:
	return credential() != null


## The credential that this client has last found on this device, or null.
func credential() -> Credential:
	if _sign_outs != _root_client()._sign_outs:
		_sign_outs = _root_client()._sign_outs
		_held = null
	if _held == null and _file:
		_held = _file.read()
	return _held


## Ends each coroutine of this client, soon. Call it before you drop the client.
func close() -> void:
	_closed = true


## True after `close`, and after the `cancel` of a client of `cancellable`.
func is_closed() -> bool:
	return _closed or _cancellation.cancelled or _root_client()._closed


func _root_client() -> GamedClient:
	var root: GamedClient = _root.get_ref() if _root else null
	return root if root else self


## {"mode", "providers"}: show one button for each provider, and one for the server itself in `local` mode.
func policy() -> Result:
	var found := Tools.members(await _offered("/auth/config"), {"mode": "text", "providers": "list"})
	if found.error == null:
		found.value["providers"] = Tools.filtered(found.value["providers"], "text")
	return found


# Reads a public page of the server: Result of the JSON.
func _offered(path: String) -> Result:
	var answer := await _request("GET", path)
	if answer.error:
		return answer
	if not answer.value.headers.get("gamed-protocol", "").begins_with("1."):
		return Result.wrong("not_gamed", "%s is not a gamed server of protocol 1." % origin.text())
	return answer.value.json()


## Result of the buttons to show, each {"name", "label"}; none in `local` mode: there the game shows one of its own.
func providers() -> Result:
	var found := []
	var answer := await _offered("/auth/providers")
	if answer.error and answer.error.code == "route_not_found":
		answer = await policy()  # an older server has no labels
		for name: String in answer.value["providers"] if answer.error == null else []:
			found.append({"name": name, "label": name.substr(0, 1).to_upper() + name.substr(1, name.length())})
		return answer if answer.error else Result.ok(found)
	var listed := Tools.member(answer, "providers", "list")
	for each: Dictionary in Tools.filtered(listed.value, "object") if listed.error == null else []:
		found.append(Tools.members(Result.ok(each), {"name": "text", "label": "text"}))
	return listed if listed.error else Tools.all(found)


## Call it at each start of the game: true if there is a session, also without a network, because the credential is
## kept. False: the sign-in has failed, or the owner has blocked the player. The client asks the server once whether the
## kept session still works; if it does not, the player signs in. The player sees every failure through
## `person.problem(error)`, which may return true (a coroutine, too) to try again. `options` and the other functions of
## `person` are those of `sign_in`.
func ensure_signed_in(person: Object, options: Dictionary = {}) -> bool:
	var _me := self
	while _is_ensuring() and not is_closed():
		await Platform.frame()
	_root_client()._ensuring = person
	var error := await _ensure(person, options)
	while error and not is_closed() and is_instance_valid(person) and person.has_method("problem"):
		var again: Variant = await person.problem(error)
		if not (again is bool and again) or is_closed():
			break
		error = await _ensure(person, options)
	_root_client()._ensuring = null
	return error == null or (error.kind != "PlayerBlocked" and signed_in())


# False, too, if the person was freed meanwhile with its scene: then its coroutine never ends.
func _is_ensuring() -> bool:
	return is_instance_valid(_root_client()._ensuring)


# GamedError, or null.
func _ensure(person: Object, options: Dictionary) -> GamedError:
	await Platform.frame()  # a dialog that was just made is in the scene tree then
	if problem:
		return problem
	if signed_in():
		var held := credential()
		var bound := only(held.player_id, 1)
		var asked := await bound.whoami()
		if asked.error == null or asked.error.kind == "PlayerChanged":  # another process has just signed in
			return null
		if asked.error.kind != "SignInRequired":
			return asked.error
		await _drop(held.session_id)
	var result := await sign_in(person, options)
	return result.error


## Through the browser; ends once the credential is on disk. `person` is any object with some of
##   choose_provider(providers) -> the name of one        each {"name", "label"} (or a coroutine)
##   browser_opened(url, opened, qr_url)                  the sign-in continues there; show `url` if not opened. qr_url:
##                                                        the address of the link's picture (PNG) for a phone, or null
##   finish_code(sign_in, attempts_left) -> the code the browser shows, or null to ask no more (a coroutine).
##       sign_in.show_code() opens the page that shows it; null: the page shows it already. attempts_left is given
##       after a wrong one. If the browser returns meanwhile, the code is not needed.
##   open_browser(url) -> whether it was                  instead of the system's own
##   ended()                                              the sign-in is over, also after a failure: close the dialog
## options: provider, loopback (false: the browser is on another machine), return_uri (an address of this app, instead
## of loopback; pass the address that the app is opened with to `returned`), adopt (keep an account that this server had
## in `local` mode). A sign-in that was kept here before is ended at the server.
func sign_in(person: Object, options: Dictionary = {}) -> Result:
	var result := await begin_sign_in(person, options).run()
	if is_instance_valid(person) and person.has_method("ended"):
		person.ended()
	return result


## The same in two steps: returns at once a SignIn, with `run()` and `cancel()`.
func begin_sign_in(person: Object, options: Dictionary = {}) -> SignIn:
	var made := SignIn.new(self, person, options)
	_root_client()._running = weakref(made)
	return made


## Ends the sign-in that runs, for a Cancel button: it ends with login_cancelled.
func cancel_sign_in() -> void:
	var running := _sign_in_under_way()
	if running:
		await running.cancel()


func _sign_in_under_way() -> SignIn:
	var running := _root_client()._running
	return running.get_ref() if running else null


## Gives the running sign-in the address with which the system has opened the app, after `return_uri`. False: the
## address is one of another sign-in, and has no effect.
func returned(url: String) -> bool:
	var running := _sign_in_under_way()
	return running.returned(url) if running else false


## Links one more account to the player, through the browser as `sign_in`; the value is the name of its provider. An
## error of the kind SignInRequired with the code reauthentication_required: sign in once more before.
func link(person: Object, provider: Variant = null, options: Dictionary = {}) -> Result:
	var asked := options.duplicate()
	asked["provider"] = provider
	asked["intent"] = "link"
	return await sign_in(person, asked)


## Deletes the credential on this device, also without a network; the value is true if the server has ended the session.
## `all` ends every session of the player; `others` ends all but this one, and keeps the credential.
func sign_out(scope: String = "this") -> Result:
	await Platform.frame()
	if problem:
		return Result.failed(problem)
	var claim := await _claimed(true)
	if _cancellation.cancelled:
		return Result.failed(_unreachable(NO_ANSWER))
	var kept := _file.read()
	if scope != "others":
		await _delete_kept()
	claim.drop()
	if kept == null:
		return Result.ok(true)
	var notified := await _send_logout(kept, scope)
	return Result.ok(notified.error == null)


# Forgets the credential of a session that has ended, but not one that replaced it meanwhile.
func _drop(session_id: String) -> void:
	var claim := await _claimed()
	var kept := _file.read()
	_held = null
	if kept != null and kept.session_id == session_id and not is_closed():
		await _delete_kept()
	claim.drop()


# Call it with the claim. The credential is gone at once, and after the wait also after a power cut.
func _delete_kept() -> void:
	var _me := self
	_file.delete()
	_root_client()._held = null
	_root_client()._sign_outs += 1
	await Disk.flushed([folder])


func _send_logout(kept: Credential, scope: String = "this") -> Result:
	var body := {"refresh_credential": kept.refresh_credential, "scope": scope}
	var how := {"json": body, "timeout": 5, "tries": 2, "last": true}
	return await _request("POST", "/auth/session/logout", how)


# --- The account ------------------------------------------------------------------------------------------------------


## `GET /game/`: player, usage, limits, time.
func whoami() -> Result:
	return await _noted(await _game_json("GET", "/game/"))


## Changes the name that games show, null for none. The value is the name as the server stored it.
func set_name(name: Variant) -> Result:
	var answer := await _game_json("PATCH", "/auth/player", {"json": {"name": name}})
	answer = await _noted(answer)
	return answer if answer.error else Result.ok(answer.value["player"].get("name"))


# Stores the name of the answer's player with the credential, from where a Sync has it; Result of the answer.
func _noted(answer: Result) -> Result:
	var _me := self
	var found := Tools.member(answer, "player", "object")
	if found.error:
		return found
	var name: Variant = Credential.name_of(found.value)
	if _held and _held.player_name == name:
		return answer
	var claim := await _claimed()
	var kept := _file.read()
	if kept and kept.player_id == found.value.get("id") and kept.player_name != name and not is_closed():
		kept.player_name = name
		await _stored(kept)  # if that fails, the next start tries again
	claim.drop()
	return answer


## Requests a ticket, which tells another server for about a minute who is playing. `audience` is the name of that
## server, `nonce` what it has sent for this connection. The value is the text to send there. Request one for each
## connection.
func ticket(audience: String, nonce: String = "") -> Result:
	var body := {"audience": audience}
	if nonce != "":
		body["nonce"] = nonce
	return Tools.member(await _game_json("POST", "/auth/tickets", {"json": body}), "ticket", "text")


## The devices where the player is signed in: a list of Dictionaries with the members of the protocol (session_id,
## provider, client, created_at, last_used_at, expires_at, current).
func list_sessions() -> Result:
	return await _listed("/auth/sessions", "sessions")


## Ends the session of a device; if it is this device's, its credential is deleted, too.
func end_session(session_id: String) -> Result:
	if not Tools.only(session_id, Tools.BASE64URL, 64):
		await Platform.frame()
		return Result.wrong("session_not_found", "There is no such session.")
	var held := credential()
	var ended := await _delete_once("/auth/sessions/" + session_id)
	if ended.error == null and held.session_id == session_id:
		await _drop(session_id)
	return ended


## The accounts that sign in as this player: a list of Dictionaries (provider, can_sign_in, linked_at, last_used_at).
func list_identities() -> Result:
	return await _listed("/auth/identities", "identities")


## Unlinks an account; the last one gives an error with the code last_identity, and a sign-in by a recovery code one of
## the kind SignInRequired with the code reauthentication_required.
func unlink(provider: String) -> Result:
	var answer := await _game("DELETE", "/auth/identities/" + provider.uri_encode())
	return answer if answer.error else Result.ok()


## Deletes the player, with saves and sessions, and then the credential. An error with the code
## reauthentication_required: the sign-in is too old, sign in once more before.
func delete_player() -> Result:
	var held := credential()
	var deleted := await _delete_once("/auth/player")
	if deleted.error == null:
		await _drop(held.session_id)
	return deleted


# Sends a DELETE that can end this session. If its answer was lost, the next try finds the session ended: a success.
func _delete_once(path: String) -> Result:
	var answer := await _game("DELETE", path)
	if answer.error and not (answer.error.code in ENDED and answer.error.answer_lost_before):
		return answer
	return Result.ok()


## Erases all saves of the player at the server, with their history; a sign-in by a recovery code gives an error of the
## kind SignInRequired with the code reauthentication_required.
func erase_saves() -> Result:
	var found := await _game("GET", "/game/")
	if found.error:
		return found
	var headers := {"If-Match": found.value.headers.get("etag", "")}
	if not SaveInfo._is_etag(headers["If-Match"]):
		return Tools.lacks("ETag")
	var answer := await _game("DELETE", "/game/", {"headers": headers})
	if answer.error and answer.error.status == 412 and answer.error.answer_lost_before:
		found = await list_saves()  # the first try may have succeeded
		return Result.ok() if found.error == null and found.value.size() == 0 else answer
	return answer if answer.error else Result.ok()


## Writes all saves with their history into a zip file, whole or not at all; the value is its size. A sign-in by a
## recovery code gives an error of the kind SignInRequired with the code reauthentication_required.
func export_saves(path: String) -> Result:
	var _me := self
	var arriving := Arriving.new(path + ".new")
	var attempt := 0
	while true:
		var before := arriving.size
		var how := {"headers": arriving.headers(), "sink": arriving, "limit": MAX_EXPORT_BYTES, "tries": 1}
		how["timeout"] = EXPORT_SECONDS
		var answer := await _game("GET", "/game/export", how)
		var error := arriving.ended(answer.error)
		await Disk.flushed([arriving.path] if error == null else [])
		if error == null and Platform.rename(arriving.path, path):
			break
		error = arriving.full() if error == null else error
		attempt = 0 if arriving.size > before else attempt
		if not await _paused_after(error, attempt, {"longest_pause": LONGEST_EXPORT_PAUSE_SECONDS}):
			Disk.remove(arriving.path)
			return Result.failed(error)
		attempt += 1
	return Result.ok(arriving.size)


# An export that is arriving, in a file beside the final one; a later try continues it.
class Arriving:
	var path: String = ""
	var size: int = 0
	var _etag: String = ""
	var _digest: String = ""
	var _context: HashingContext = null
	var _file: FileAccess = null

	func _init(the_path: String) -> void:
		path = the_path

	func headers() -> Dictionary:
		return {"Range": "bytes=%d-" % size, "If-Range": _etag} if size > 0 and _etag != "" else {}

	# GamedError or null.
	func begin(answer: Answer) -> GamedError:
		_etag = answer.headers.get("etag", "")
		_digest = DigestCheck.hash_in(answer)
		if _digest == "":
			return Tools.lacks("Repr-Digest").error
		if answer.status == 206 and not answer.headers.get("content-range", "").begins_with("bytes %d-" % size):
			return _damaged()
		if answer.status == 200 or size == 0:
			size = 0
			_context = HashingContext.new()
			_context.start(HashingContext.HASH_SHA256)
		_file = Disk.open_end(path, size > 0)
		return null if _file else full()

	# GamedError or null.
	func take(bytes: PackedByteArray) -> GamedError:
		_file.store_buffer(bytes)
		_context.update(bytes)
		size += bytes.size()
		return null

	# Ends a try with this error or null: GamedError, also if the disk lacks bytes or they are not those that the server
	# hashed (`Repr-Digest`, RFC 9530); else null.
	func ended(error: GamedError) -> GamedError:
		_file = null  # closes it
		if size > 0 and Disk.size_of(path) < size:
			return full()
		if error == null and _digest != Marshalls.raw_to_base64(_context.finish()):
			size = 0
			return _damaged()
		return error

	static func _damaged() -> GamedError:
		return GamedError.new("download_corrupt", "The export arrived damaged.")

	static func full() -> GamedError:
		return GamedError.new("disk_full", "This device cannot write the file. Free some space, or choose another folder.")


func _listed(path: String, name: String) -> Result:
	var listed := Tools.member(await _game_json("GET", path), name, "list")
	return listed if listed.error else Result.ok(Tools.filtered(listed.value, "object"))


# --- The saves --------------------------------------------------------------------------------------------------------


## Requests the current version of each slot; the value is an array of SaveInfo.
func list_saves() -> Result:
	var found := await changes()
	return Result.ok(found.value["saves"]) if found.error == null else found


## {"cursor", "saves", "whole", "more", "expired"}: the changes since the cursor of an earlier answer; all saves without
## a cursor, or if the server does not have that past any more. A save that was deleted is {"slot", "version",
## "deleted": true}. The oldest changes come first, at most 256 slots or `limit`; `more`: the server has further ones,
## ask with the new cursor at once. A slot that changes meanwhile appears again.
## `expired`: slots that are missing on all pages of the whole list were deleted long ago.
## If nothing has changed, the server waits `wait` seconds for a change, at most 25.
func changes(since: Variant = null, wait: int = 0, limit: Variant = null) -> Result:
	var path := "/game/saves" + _query("since", since.uri_encode() if since != null else null, limit)
	var headers := {"Prefer": "wait=%d" % wait} if wait > 0 else {}
	var answer := await _game_json("GET", path, {"headers": headers, "timeout": wait + timeout_seconds})
	var flag := ["flag", false]
	var types := {"saves": "list", "cursor": "text", "more": flag, "reset": flag, "expired": flag}
	var found := Tools.members(answer, types)
	var saves := _changed(Tools.member(found, "saves", "list"))
	if saves.error:
		return saves
	var page: Dictionary = found.value
	var made := {"cursor": page["cursor"], "saves": saves.value, "more": page["more"]}
	made["whole"] = since == null or page["reset"]
	made["expired"] = page["reset"] and page["expired"]
	return Result.ok(made)


# The query of a path, without parameters that are null.
static func _query(name: String, value: Variant, limit: Variant) -> String:
	var found := []
	if value != null:
		found.append("%s=%s" % [name, value])
	if limit != null:
		found.append("limit=%d" % limit)
	return "?" + Platform.join(found, "&") if found.size() > 0 else ""


# Result of the entries of a list or of a commit: a SaveInfo each, or {"slot", "version", "deleted": true}.
static func _changed(listed: Result) -> Result:
	var saves := []
	var deletion := {"slot": "text", "version": "number", "deleted": ["flag", true]}
	for entry: Dictionary in Tools.filtered(listed.value, "object") if listed.error == null else []:
		saves.append(Tools.members(Result.ok(entry), deletion) if entry.get("deleted") else SaveInfo.of(entry))
	return listed if listed.error else Tools.all(saves)


## The current bytes, checked: {"etag", "data", "content_type", "meta"}; null if the slot was never written.
## Errors: Deleted, and NotModified if the current version is the one given as `unless`.
func get_save(slot: String, unless: Variant = null) -> Result:
	var headers := {} if unless == null else {"If-None-Match": condition(unless)["If-Match"]}
	var how := {"headers": headers, "check": DigestCheck.new(), "limit": MAX_SAVE_BYTES}
	var answer := await _slot("GET", slot, "", how)
	if answer.error:
		return Result.ok(null) if answer.error.kind == "NotFound" else answer
	return Result.ok(save_of(answer.value))


## Writes `data` (bytes, or a text) on top of `base`: the version that was read or its etag, "*" for any version, null
## for a new slot. The value is a SaveInfo; the server then has the bytes on disk. Conflict if the slot has another
## version; the server then keeps both. Sending the same bytes twice is one write.
func put(slot: String, data: Variant, base: Variant, meta: Variant = null, content_type: String = BINARY) -> Result:
	var bytes: PackedByteArray = data.to_utf8_buffer() if data is String else data
	var headers := condition(base)
	headers["Content-Type"] = content_type
	headers["Content-Digest"] = Tools.digest_field(bytes)
	if meta != null:
		headers["Save-Meta"] = Tools.ascii_json(meta)
	return _info_of(await _slot("PUT", slot, "", {"headers": headers, "body": bytes}))


## Deletes the version that was read; its history stays on the server for a while.
func delete(slot: String, base: Variant) -> Result:
	var answer := await _slot("DELETE", slot, "", {"headers": condition(base)})
	if answer.error and not (answer.error.code == "deleted" and answer.error.answer_lost_before):
		return answer  # else: the first try has deleted it
	return Result.ok()


## The versions of a slot that the server keeps, newest first, also of a deleted slot and those that lost a conflict: a
## list of {"version", "kind", "parent", "expires", "save", "device"}; `save` is a SaveInfo, null for a delete. A long
## history takes a request for each 100 versions, or `limit`; those after the first page end once `down_to` is reached.
func versions(slot: String, down_to: int = 1, limit: Variant = null) -> Result:
	var page := await versions_page(slot, null, limit)
	var found: Array = page.value["versions"] if page.error == null else []
	while page.error == null and page.value["more"] and found[-1]["version"] > down_to:
		page = await versions_page(slot, found[-1]["version"], limit)
		found += page.value["versions"] if page.error == null else []
	return Result.ok(found) if page.error == null else page


## {"versions", "more"}: the newest versions that are older than `before`, at most 100 or `limit`; `more`: the server
## has older ones.
func versions_page(slot: String, before: Variant = null, limit: Variant = null) -> Result:
	var number: Variant = "%d" % before if before != null else null
	var answer := Tools.json(await _slot("GET", slot, "/versions" + _query("before", number, limit)))
	var page := Tools.members(answer, {"versions": "list", "more": ["flag", false]})
	var entries := []
	for entry: Variant in page.value["versions"] if page.error == null else []:
		entries.append(_version_of(entry))
	var found := page if page.error else Tools.all(entries)
	if found.error:
		return found
	var more: bool = page.value["more"]
	if more and (entries.size() == 0 or (before != null and found.value[-1]["version"] >= before)):
		return Result.wrong("not_gamed", "The server's pages of versions do not end.")
	return Result.ok({"versions": found.value, "more": more})


static func _version_of(entry: Variant) -> Result:
	if not entry is Dictionary:
		return Tools.lacks("versions")
	var text := ["text", null]
	var types := {"version": "number", "kind": "text", "parent": ["number", null], "expires": text, "device": text}
	var found := Tools.members(Result.ok(entry), types)
	var save := SaveInfo.of(entry) if found.error == null and entry.get("etag") else found
	if save.error == null:
		found.value["save"] = save.value if entry.get("etag") else null
	return save if save.error else found


## The bytes of one version, checked; NotFound when it is no longer kept.
func version(slot: String, number: int) -> Result:
	var how := {"check": DigestCheck.new(), "limit": MAX_SAVE_BYTES}
	var answer := await _slot("GET", slot, "/versions/%d" % number, how)
	return Result.ok(save_of(answer.value)) if answer.error == null else answer


## Makes an old version or a conflict's copy current again, on top of `base`: null undeletes a slot.
func restore(slot: String, number: int, base: Variant) -> Result:
	var how := {"headers": condition(base)}
	return _info_of(await _slot("POST", slot, "/versions/%d/restore" % number, how))


## Changes several slots together: all, or none. Each of `writes` is a Dictionary: slot, base as in `put`, and data with
## optional meta and content_type, or `"delete": true`. The value lists the saves as they are now. Errors: Conflict,
## whose `slots()` has the sides of each one.
func commit(writes: Array) -> Result:
	var entries := []
	var bodies := {}
	await Platform.frame()
	for write: Dictionary in writes:
		var entry := _commit_entry(write, bodies)
		if entry.error:
			return entry
		entries.append(entry.value)
	var answer := Result.new()
	for asks: bool in [true, false]:
		answer = await _stage(bodies, asks)
		if answer.error == null:
			answer = await _game("POST", "/game/commit", {"json": {"writes": entries}})
		if answer.error == null or answer.error.code != "blob_missing":
			break  # else: the uploaded bytes have expired, or were damaged
	return _changed(Tools.member(Tools.json(answer), "saves", "list"))


# Result of an entry of a commit; its bytes go into `bodies`, by their SHA-256.
static func _commit_entry(write: Dictionary, bodies: Dictionary) -> Result:
	var path := path_of(write.get("slot"))
	if path.error:
		return path
	var entry := {"slot": write["slot"]}
	var named := condition(write.get("base"))
	for header: String in named:
		entry[header.to_lower().replace("-", "_")] = named[header]
	if write.get("delete"):
		entry["delete"] = true
		return Result.ok(entry)
	var bytes: Variant = write.get("data", "")
	bytes = bytes.to_utf8_buffer() if bytes is String else bytes
	entry["sha256"] = Tools.sha256(bytes)
	bodies[entry["sha256"]] = bytes
	for name: String in ["meta", "content_type"]:
		if write.get(name) != null:
			entry[name] = write[name]
	return Result.ok(entry)


# Uploads the bytes of a commit; with `asks` it leaves out large ones that the server already has.
func _stage(bodies: Dictionary, asks: bool) -> Result:
	for digest: String in bodies:
		var path := "/game/blobs/" + digest
		var body: PackedByteArray = bodies[digest]
		if asks and body.size() > ASK_FIRST_BYTES:
			var there := await _game("HEAD", path, {"tries": 1})
			if there.error == null:
				continue
		var headers := {"Content-Type": BINARY, "Content-Digest": Tools.digest_field(body)}
		var staged := await _game("PUT", path, {"headers": headers, "body": body})
		if staged.error:
			return staged
	return Result.ok()


## Deletes a conflict's copy, after the player has chosen. Success, too, if the server has deleted it already.
func dismiss(slot: String, number: int) -> Result:
	var answer := await _slot("DELETE", slot, "/versions/%d" % number)
	return answer if answer.error and not answer.error.is_a("NotFound") else Result.ok()


func _info_of(answer: Result) -> Result:
	var value := Tools.json(answer)
	return SaveInfo.of(value.value) if value.error == null else value


func _slot(method: String, slot: String, rest: String, how: Dictionary = {}) -> Result:
	var path := path_of(slot)
	if path.error:
		await Platform.frame()
		return path
	return await _game(method, path.value + rest, how)


# --- Staying signed in ------------------------------------------------------------------------------------------------


## A client with the same sign-in for one player: PlayerChanged if another has signed in since. Closing the first client
## closes it, too.
func only(player_id: String, tries: int = TRIES) -> GamedClient:
	var bound := cancellable(_cancellation)
	bound._tries = tries
	bound._player = player_id
	return bound


## A client with the same sign-in, whose calls end with the code `cancelled` once `cancellation.cancel()` was called,
## also while they wait: `GamedAssets.new(client.cancellable(cancellation))` for downloads. A write that was on its way
## may have reached the server all the same.
func cancellable(cancellation: Cancellation) -> GamedClient:
	var options := {}
	for name: String in OPTIONS.split(" "):
		options[name] = get(name)
	var bound: GamedClient = get_script().new(origin.text() if origin else "", options)
	bound._tries = _tries
	bound._player = _player
	bound._cancellation = cancellation
	bound._root = weakref(_root_client())
	return bound


## Seconds since 1970, by this device's clock.
func now() -> float:
	return Platform.now() + _root_client().clock_shift


func _game_json(method: String, path: String, how: Dictionary = {}) -> Result:
	return Tools.json(await _game(method, path, how))


# Sends a request with the player's token, and once more with a newer one if the server refuses the first.
func _game(method: String, path: String, how: Dictionary = {}) -> Result:
	var stale: Variant = null
	var lost := false
	var answer: Result
	while true:
		var used := Result.failed(problem) if problem else _usable(credential(), stale, _player)
		if used.error == null and used.value == null:
			used = await _live(stale)
		if used.error:
			await Platform.frame()
			used.error.answer_lost_before = lost
			return used
		var asked := how.duplicate()
		asked["bearer"] = used.value.access_token
		answer = await _request(method, path, asked)
		if answer.error == null or not answer.error.is_a("SignInRequired"):
			break
		lost = lost or answer.error.answer_lost_before
		answer.error.answer_lost_before = lost
		if not await _renewable(answer.error, used.value) or stale != null:
			break
		stale = used.value.access_token
	return answer


# True if a newer token can succeed. Forgets a session that has ended, but not one that has replaced it meanwhile.
func _renewable(error: GamedError, used: Credential) -> bool:
	if error.code == "reauthentication_required":
		_root_client()._too_old = used.session_id
	if not error.code in FORGET:
		return error.code in RENEW
	var claim := await _claimed()
	var kept := _file.read()
	var replaced := kept != null and kept.session_id != used.session_id
	if not replaced and not is_closed():
		await _forget(error.code)
	elif replaced and kept.player_id == used.player_id:  # else `_live` finds that another player has signed in
		_held = kept
	claim.drop()
	return replaced


func _forget(code: String) -> void:
	await _delete_kept()
	if not _is_ensuring():  # `ensure_signed_in` signs in again itself
		_root_client().session_ended.emit(code)


# Result of a Credential with an access token that should work and is not `stale`.
func _live(stale: Variant) -> Result:
	var player := credential().player_id
	var claim := await _claimed()  # the first one refreshes, the others find its tokens
	_held = _file.read()
	var held := _usable(_held, stale, player)
	if held.error == null and held.value == null:
		held = await _refresh(_held)
	claim.drop()
	return held


# Result of `held`, or of null if it needs a refresh. `player`: the one whose it has to be, or null.
func _usable(held: Credential, stale: Variant, player: Variant) -> Result:
	if held == null:
		return Result.wrong("signed_out", "No player is signed in here.")
	if player != null and held.player_id != player:
		return Result.wrong("player_changed", "Another player signed in here meanwhile.")
	return Result.ok(held if held.fresh(now()) and held.access_token != stale else null)


# Call it with the claim. It can be repeated: until the new pair is used, the server answers the old one with it again.
func _refresh(kept: Credential) -> Result:
	var _me := self
	var body := {"refresh_credential": kept.refresh_credential}
	var answer := await _request("POST", "/auth/session/refresh", {"json": body})
	if answer.error and answer.error.code in FORGET:
		await _forget(answer.error.code)
	var renewed := Credential.of(kept.to_json())
	var paired := _pair(renewed, Tools.json(answer))
	return paired if paired.error else await _stored(renewed)


# Result of the Credential, which is on the disk before its first use.
func _stored(fresh: Credential) -> Result:
	var _me := self
	if not await _file.write(fresh):
		return Result.wrong("local_disk", "This device cannot keep the sign-in.")
	_held = fresh
	return Result.ok(fresh)


func _pair(made: Credential, answer: Result) -> Result:
	var found := Tools.members(answer, {"refresh_credential": "text", "access_token": "text", "expires_in": "number"})
	if found.error == null:
		made.refresh_credential = found.value["refresh_credential"]
		made.access_token = found.value["access_token"]
		made.access_lifetime = found.value["expires_in"]
		made.access_expires = now() + found.value["expires_in"]
	return found


## Result of the Credential of a finished sign-in; it is on disk before it is used.
func keep(complete: Dictionary) -> Result:
	var _me := self
	var fresh := Credential.new()
	fresh.origin = origin.text()
	var answer := Result.ok(complete)
	var types := {"player": {"id": "text"}, "session_id": "text", "provider": "text"}
	var found := Tools.members(answer, types)
	if found.error:
		return found
	fresh.player_id = found.value["player"]["id"]
	fresh.session_id = complete["session_id"]
	fresh.provider = complete["provider"]
	fresh.player_name = Credential.name_of(complete["player"])
	var paired := _pair(fresh, answer)
	if paired.error:
		return paired
	var claim := await _claimed(true)
	if _cancellation.cancelled:
		return Result.failed(_unreachable(NO_ANSWER))
	var before := _file.read()
	var stored := await _stored(fresh)
	claim.drop()
	if stored.error == null and before != null and before.session_id != fresh.session_id:
		await _send_logout(before)
	return stored
