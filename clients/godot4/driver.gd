# The conformance suite's driver for gamed.gd and its neighbours: clients/conformance/README.md has its commands.
#
# The lines come over a connection: Godot 3 cannot read stdin, and reading it would stop the one loop of Godot 4.
extends SceneTree

const Client = preload("gamed.gd")
const Sync = preload("gamed_sync.gd")
const Assets = preload("gamed_assets.gd")
const Result = Client.Result
const Platform = Client.Platform

const FEATURES = (
	"saves sync assets loopback parallel shared_store clock timeout names ensure providers qr account commit return_uri"
	+ " loop pages locale delete_newer tickets other_players confirm cancel stop_at_once"
)

var _socket := StreamPeerTCP.new()
var _clients: Dictionary = {}


func _init() -> void:
	Engine.max_fps = 1000
	call_deferred("_serve")


func _serve() -> void:
	_socket.connect_to_host("127.0.0.1", int(OS.get_environment("GAMED_CONFORMANCE_PORT")))
	while _socket.get_status() == StreamPeerTCP.STATUS_CONNECTING:
		await Platform.frame()
		Platform.poll(_socket)
	_socket.set_no_delay(true)
	say({"event": "hello", "language": "GDScript (%s)" % Platform.NAME, "features": FEATURES.split(" ")})
	var line := PackedByteArray()
	while _socket.get_status() == StreamPeerTCP.STATUS_CONNECTED:
		Platform.poll(_socket)
		var waiting := _socket.get_available_bytes()
		if waiting <= 0:
			await Platform.frame()
			continue
		var arrived: Variant = _socket.get_data(waiting)[1]
		var end: float = arrived.get_string_from_ascii().find("\n")
		while end >= 0:
			line.append_array(Platform.slice(arrived, 0, end + 1))
			_perform(Platform.parsed(line.get_string_from_utf8()))
			line = PackedByteArray()
			arrived = Platform.slice(arrived, end + 1, arrived.size())
			end = arrived.get_string_from_ascii().find("\n")
		line.append_array(arrived)
	quit()


func say(value: Dictionary) -> void:
	_socket.put_data((Client.Tools.ascii_json(value) + "\n").to_ascii_buffer())


func _perform(command: Dictionary) -> void:
	var result: Variant = _at_once(command)
	if result == null:
		var answer: Variant = await _clients[str(command["client"])].call("do_" + str(command["do"]), command)
		result = answer
	if result.error:
		say({"id": command["id"], "error": error_of(result.error)})
	else:
		say({"id": command["id"], "ok": result.value})


static func error_of(error: Client.GamedError) -> Dictionary:
	var value := {"code": error.code, "kind": error.kind, "detail": error.detail, "status": error.status}
	if error.retry_after != null:
		value["retry_after"] = error.retry_after
	if error.kind == "InvalidProof":
		value["attempts_left"] = error.attempts_left()
	if error.kind == "Conflict":
		value["base"] = error.base()
		value["current"] = error.current()
		value["yours"] = error.yours()
		if error.slots().size() > 0:
			value["conflicts"] = error.slots()
	return value


# The result of a command that no client has to carry out; else null.
func _at_once(command: Dictionary) -> Result:
	var name := str(command.get("client"))
	var what := str(command.get("do"))
	if what == "open":
		return _open(name, command)
	if what == "close":
		if _clients.has(name):
			_clients[name].close()
			_clients.erase(name)
		return Result.ok({})
	if not _clients.has(name) or not _clients[name].has_method("do_" + what):
		var error := Client.GamedError.new("unsupported", "%s of %s" % [what, name])
		error.kind = "Driver"
		return Result.failed(error)
	return null


func _open(name: String, command: Dictionary) -> Result:
	var options := {"folder": command.get("folder"), "app": command.get("app")}
	for each: String in ["pauses", "timeout_seconds", "clock_shift", "return_seconds", "device_name", "locale"]:
		options[each] = command.get(each)
	var client := Client.new(command["server"], options)
	if client.problem:
		return Result.failed(client.problem)
	if _clients.has(name):
		_clients[name].close()
	_clients[name] = Session.new(self, name, client)
	return Result.ok({"origin": client.origin.text()})


# One client of the suite's, and the person in front of it. Each command is a function `do_...`.
# gdlint: disable=max-public-methods
class Session:
	extends RefCounted

	var _driver: SceneTree
	var _name: String
	var _client: Client
	var _cancellation := Client.Cancellation.new()
	var _cancellations: Dictionary = {}
	var _sign_in: Variant = null
	var _codes: Array = []
	var _problem: Client.GamedError = null
	var _sync: Sync = null
	var _shown: Dictionary = {}

	func _init(driver: SceneTree, name: String, client: Client) -> void:
		_driver = driver
		_name = name
		_client = client
		client.paused.connect(_paused)

	func close() -> void:
		if _sync:
			_sync.close()
		_client.close()

	func _tell(event: String, value: Dictionary) -> void:
		value["event"] = event
		value["client"] = _name
		_driver.say(value)

	func _paused(seconds: float) -> void:
		_tell("pause", {"seconds": seconds})

	# -- the person --

	func open_browser(_url: String) -> bool:
		return true

	func browser_opened(url: String, _opened: bool, qr_url: Variant) -> void:
		_tell("open", {"url": url, "qr_url": qr_url})

	func choose_provider(providers: Array) -> String:
		var asked := {"providers": [], "labels": []}
		for provider: Dictionary in providers:
			asked["providers"].append(provider["name"])
			asked["labels"].append(provider["label"])
		_tell("choose_provider", asked)
		return providers[-1]["name"]

	func problem(error: Client.GamedError) -> void:
		_problem = error

	func finish_code(sign_in: Client.SignIn, attempts_left: Variant) -> Variant:
		_codes.clear()
		_sign_in = sign_in
		_tell("finish_code", {"show_code": sign_in != null, "attempts_left": attempts_left})
		while _codes.is_empty():
			await Platform.frame()
			if _client.is_closed():
				return null
		return _codes.pop_front()

	# -- the player --

	func do_clock(command: Dictionary) -> Result:
		_client.clock_shift = command["shift"]
		return Result.ok({})

	# Without a text it is that of all calls with `cancellable`, until now.
	func do_cancel(command: Dictionary) -> Result:
		_named(command).cancel()
		if command.get("cancellation") == null:
			_cancellation = Client.Cancellation.new()
		return Result.ok({})

	func _named(command: Dictionary) -> Client.Cancellation:
		var name: Variant = command.get("cancellation")
		if name == null:
			return _cancellation
		if not _cancellations.has(name):
			_cancellations[name] = Client.Cancellation.new()
		return _cancellations[name]

	func _called(command: Dictionary) -> Client:
		var named: bool = command.get("cancellable") == true or command.get("cancellation") != null
		return _client.cancellable(_named(command)) if named else _client

	func do_policy(_command: Dictionary) -> Result:
		return await _client.policy()

	func do_providers(_command: Dictionary) -> Result:
		return _as("providers", await _client.providers())

	func do_sign_in(command: Dictionary) -> Result:
		var result := await _client.sign_in(self, _options(command))
		return do_signed_in(command) if result.error == null else result

	func do_ensure_signed_in(command: Dictionary) -> Result:
		_problem = null
		var signed_in := await _client.ensure_signed_in(self, _options(command))
		var problem: Variant = _driver.error_of(_problem) if _problem else null
		return Result.ok({"signed_in": signed_in, "problem": problem})

	func do_returned(command: Dictionary) -> Result:
		_client.returned(command["url"])
		return Result.ok({})

	func _options(command: Dictionary) -> Dictionary:
		var options := {}
		for each: String in ["provider", "loopback", "return_uri"]:
			if command.get(each) != null:
				options[each] = command[each]
		return options

	func do_finish_code(command: Dictionary) -> Result:
		_codes.append(command.get("code"))
		return Result.ok({})

	func do_show_code(_command: Dictionary) -> Result:
		if _sign_in:
			_sign_in.show_code()
		return Result.ok({})

	func do_cancel_sign_in(_command: Dictionary) -> Result:
		await _client.cancel_sign_in()
		return Result.ok({})

	func do_signed_in(_command: Dictionary) -> Result:
		var kept := _client.credential()
		if kept == null:
			return Result.ok({"signed_in": false})
		return Result.ok({"signed_in": true, "player_id": kept.player_id, "session_id": kept.session_id})

	func do_sign_out(command: Dictionary) -> Result:
		return _as("server_notified", await _client.sign_out(_given(command, "scope", "this")))

	func do_set_name(command: Dictionary) -> Result:
		return _as("name", await _client.set_name(command["name"]))

	func do_ticket(command: Dictionary) -> Result:
		return _as("ticket", await _client.ticket(command["audience"], _given(command, "nonce", "")))

	func do_whoami(command: Dictionary) -> Result:
		return await _called(command).whoami()

	func do_sessions(_command: Dictionary) -> Result:
		return _as("sessions", await _client.list_sessions())

	func do_end_session(command: Dictionary) -> Result:
		return _done(await _client.end_session(command["session_id"]))

	func do_identities(_command: Dictionary) -> Result:
		return _as("identities", await _client.list_identities())

	func do_link(command: Dictionary) -> Result:
		return _as("provider", await _client.link(self, command.get("provider"), _options(command)))

	func do_unlink(command: Dictionary) -> Result:
		return _done(await _client.unlink(command["provider"]))

	func do_delete_player(_command: Dictionary) -> Result:
		return _done(await _client.delete_player())

	func do_erase_saves(_command: Dictionary) -> Result:
		return _done(await _client.erase_saves())

	func do_export(command: Dictionary) -> Result:
		return _as("size", await _called(command).export_saves(command["file"]))

	# -- saves --

	func do_list_saves(_command: Dictionary) -> Result:
		return _as("saves", await _client.list_saves())

	func do_changes(command: Dictionary) -> Result:
		var wait := int(_given(command, "wait", 0))
		return await _called(command).changes(command.get("since"), wait, command.get("limit"))

	func do_get(command: Dictionary) -> Result:
		return _save(await _client.get_save(command["slot"], command.get("unless")))

	func do_put(command: Dictionary) -> Result:
		var data := Marshalls.base64_to_raw(command["data"])
		var type: String = _given(command, "content_type", Client.BINARY)
		return await _called(command).put(command["slot"], data, command.get("base"), command.get("meta"), type)

	func do_delete(command: Dictionary) -> Result:
		return _done(await _client.delete(command["slot"], command["base"]))

	func do_versions(command: Dictionary) -> Result:
		return _as("versions", await _client.versions(command["slot"]))

	func do_versions_page(command: Dictionary) -> Result:
		return await _client.versions_page(command["slot"], command.get("before"), command.get("limit"))

	func do_version(command: Dictionary) -> Result:
		return _save(await _client.version(command["slot"], command["number"]))

	func do_restore(command: Dictionary) -> Result:
		return await _client.restore(command["slot"], command["number"], command.get("base"))

	func do_dismiss(command: Dictionary) -> Result:
		return _done(await _client.dismiss(command["slot"], command["number"]))

	func do_commit(command: Dictionary) -> Result:
		var writes := []
		for write: Dictionary in command["writes"]:
			var one := write.duplicate()
			if one.get("data") != null:
				one["data"] = Marshalls.base64_to_raw(one["data"])
			writes.append(one)
		return _as("saves", await _client.commit(writes))

	func _done(result: Result) -> Result:
		return Result.ok({}) if result.error == null else result

	func _given(command: Dictionary, name: String, otherwise: Variant) -> Variant:
		return otherwise if command.get(name) == null else command[name]

	func _as(name: String, result: Result) -> Result:
		return Result.ok({name: result.value}) if result.error == null else result

	func _save(result: Result) -> Result:
		if result.error or result.value == null:
			return result
		var value: Dictionary = result.value.duplicate()
		value["data"] = Marshalls.raw_to_base64(value["data"])
		return Result.ok(value)

	# -- offline play --

	func do_sync_open(_command: Dictionary) -> Result:
		if _sync:
			_sync.close()
		_sync = Sync.new(_client)
		_sync.changed.connect(_changed)
		return Result.ok({}) if _sync.is_open() else Result.failed(_sync.problem)

	func do_sync_close(_command: Dictionary) -> Result:
		_sync.close()
		return Result.ok({})

	func do_sync_start(_command: Dictionary) -> Result:
		_sync.run()
		return Result.ok({})

	func do_sync_run(_command: Dictionary) -> Result:
		return _done(await _sync.run())

	func do_sync_stop(_command: Dictionary) -> Result:
		_sync.stop()
		return Result.ok({})

	func _changed(status: Dictionary) -> void:
		_tell("sync_changed", Client.Tools.part(status, ["slot", "state"]))

	func do_sync_ready(command: Dictionary) -> Result:
		return Result.ok({"ready": await _sync.ready(command["within"])})

	func do_sync_read(command: Dictionary) -> Result:
		return _save(_sync.read(command["slot"]))

	func do_sync_peek(command: Dictionary) -> Result:
		return _save(_sync.peek(command["slot"]))

	func do_sync_write(command: Dictionary) -> Result:
		var data := Marshalls.base64_to_raw(command["data"])
		var type: String = _given(command, "content_type", Client.BINARY)
		return _done(_sync.write(command["slot"], data, command.get("meta"), type))

	func do_sync_delete(command: Dictionary) -> Result:
		return _done(_sync.delete(command["slot"], command.get("including_newer") == true))

	func do_sync_flush(_command: Dictionary) -> Result:
		return _done(await _sync.flush())

	func do_sync_status(command: Dictionary) -> Result:
		return Result.ok(_status(_sync.status(command["slot"])))

	func do_sync_slots(_command: Dictionary) -> Result:
		var found := []
		for status: Dictionary in _sync.slots():
			found.append(_status(status))
		return Result.ok({"slots": found})

	func do_sync_pump(_command: Dictionary) -> Result:
		var result := await _sync.send()
		var news := []
		for status: Dictionary in result.value if result.error == null else []:
			news.append(Client.Tools.part(status, ["slot", "state"]))
		return result if result.error else Result.ok({"news": news})

	func do_sync_conflicts(_command: Dictionary) -> Result:
		var found := []
		_shown.clear()
		for conflict: Sync.SyncConflict in _sync.conflicts():
			_shown[conflict.slot] = conflict
			found.append({
				"slot": conflict.slot,
				"reason": conflict.reason,
				"base": conflict.base_info,
				"current": conflict.current,
				"copy": conflict.copy,
			})
		return Result.ok({"conflicts": found})

	func do_sync_side(command: Dictionary) -> Result:
		var conflict: Variant = _shown[command["slot"]]
		if command["side"] == "mine":
			return _save(conflict.mine())
		if command["side"] == "theirs":
			return _save(await conflict.theirs())
		return _save(await conflict.base())

	func do_sync_keep_mine(command: Dictionary) -> Result:
		return _done(_shown[command["slot"]].keep_mine())

	func do_sync_keep_theirs(command: Dictionary) -> Result:
		return _done(await _shown[command["slot"]].keep_theirs())

	func do_sync_merged(command: Dictionary) -> Result:
		var data := Marshalls.base64_to_raw(command["data"])
		return _done(_shown[command["slot"]].merged(data, command.get("meta")))

	func do_sync_dropped(command: Dictionary) -> Result:
		return _save(_sync.lost(command["slot"]))

	func do_sync_other_players(_command: Dictionary) -> Result:
		return _as("players", await _sync.other_players())

	func do_sync_adopt(command: Dictionary) -> Result:
		return _as("slots", await _sync.adopt(command["player_id"], command.get("slots")))

	func do_sync_trouble(_command: Dictionary) -> Result:
		var error: Client.GamedError = _sync.problem
		return Result.ok({"code": error.code, "detail": error.detail} if error else {"code": null})

	func _status(status: Dictionary) -> Dictionary:
		var value := status.duplicate()
		value["problem"] = status["problem"].code if status["problem"] else null
		return value

	# -- downloads --

	# The client keeps releases side by side; the suite looks for the files of the current one.
	func do_download(command: Dictionary) -> Result:
		var target: Variant = command["target"]
		var assets := Assets.new(_called(command), target + ".releases")
		var result := await assets.download(command["channel"])
		if result.error:
			return result
		var files: Array = result.value["files"].keys()
		for name: String in files:
			var to := "%s/%s" % [target, name]
			await assets._copied(assets.path(name).value, to, result.value["files"][name])
		assets.close()
		return Result.ok({"release": result.value["release"], "files": files})
