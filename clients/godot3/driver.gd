# The conformance suite's driver for gamed.gd and its neighbours: clients/conformance/README.md has its commands.
#
#     GAMED_CONFORMANCE_PORT=40123 godot3-server --no-window --path clients/godot3 -s driver.gd
#
# Godot 3 cannot read stdin, so the lines come over a connection.
extends SceneTree

const GamedClient = preload("gamed.gd")
const Sync = preload("gamed_sync.gd")
const Assets = preload("gamed_assets.gd")
const Result = GamedClient.Result

const FEATURES = (
	"saves sync assets loopback parallel shared_store clock timeout names ensure providers qr account commit return_uri"
	+ " loop pages"
)

var _socket = StreamPeerTCP.new()
var _clients = {}


func _init():
	Engine.target_fps = 1000
	call_deferred("_serve")


func _serve():
	_socket.connect_to_host("127.0.0.1", int(OS.get_environment("GAMED_CONFORMANCE_PORT")))
	while _socket.get_status() == StreamPeerTCP.STATUS_CONNECTING:
		yield(self, "idle_frame")
	_socket.set_no_delay(true)
	say({"event": "hello", "language": "GDScript (Godot 3)", "features": FEATURES.split(" ")})
	var line = PoolByteArray()
	while _socket.get_status() == StreamPeerTCP.STATUS_CONNECTED:
		var waiting = _socket.get_available_bytes()
		if waiting == 0:
			yield(self, "idle_frame")
			continue
		var arrived = _socket.get_data(waiting)[1]
		var end = arrived.get_string_from_ascii().find("\n")
		while end >= 0:
			line.append_array(arrived.subarray(0, end))
			_perform(JSON.parse(line.get_string_from_utf8()).result)
			line = PoolByteArray()
			var rest = end + 1 < arrived.size()
			arrived = arrived.subarray(end + 1, arrived.size() - 1) if rest else PoolByteArray()
			end = arrived.get_string_from_ascii().find("\n")
		line.append_array(arrived)
	quit()


func say(value):
	_socket.put_data((GamedClient.Tools.ascii_json(value) + "\n").to_ascii())


func _perform(command):
	var result = _do(command)
	if result is GDScriptFunctionState:
		result = yield(result, "completed")
	if result.error:
		say({"id": command["id"], "error": error_of(result.error)})
	else:
		say({"id": command["id"], "ok": result.value})


static func error_of(error):
	var value = {"code": error.code, "kind": error.kind, "detail": error.detail, "status": error.status}
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


func _do(command):
	var name = str(command.get("client"))
	var what = str(command.get("do"))
	if what == "open":
		return _open(name, command)
	if what == "close":
		if _clients.has(name):
			_clients[name].close()
			_clients.erase(name)
		return Result.ok({})
	if not _clients.has(name) or not _clients[name].has_method("do_" + what):
		var error = GamedClient.GamedError.new("unsupported", "%s of %s" % [what, name])
		error.kind = "Driver"
		return Result.failed(error)
	return _clients[name].call("do_" + what, command)


func _open(name, command):
	var options = {"folder": command.get("folder"), "app": command.get("app")}
	for each in ["pauses", "timeout_seconds", "clock_shift", "return_seconds", "device_name"]:
		options[each] = command.get(each)
	var client = GamedClient.new(command["server"], options)
	if client.flaw:
		return Result.failed(client.flaw)
	if _clients.has(name):
		_clients[name].close()
	_clients[name] = Session.new(self, name, client)
	return Result.ok({"origin": client.origin.text()})


# One client of the suite's, and the person in front of it. Each command is a function `do_...`.
class Session:
	extends Reference

	var _driver
	var _name
	var _client
	var _sign_in = null
	var _codes = []
	var _problem = null
	var _sync = null
	var _shown = {}

	func _init(driver, name, client):
		_driver = driver
		_name = name
		_client = client
		client.connect("paused", self, "_paused")

	func close():
		if _sync:
			_sync.close()
		_client.close()

	func say(event, value):
		value["event"] = event
		value["client"] = _name
		_driver.say(value)

	func _paused(seconds):
		say("pause", {"seconds": seconds})

	# -- the person --

	func open_browser(_url):
		return true

	func browser_opened(url, _opened, qr_url):
		say("open", {"url": url, "qr_url": qr_url})

	func choose_provider(providers):
		var asked = {"providers": [], "labels": []}
		for provider in providers:
			asked["providers"].append(provider["name"])
			asked["labels"].append(provider["label"])
		say("choose_provider", asked)
		return providers[-1]["name"]

	func problem(error):
		_problem = error

	func finish_code(sign_in, attempts_left):
		_codes.clear()
		_sign_in = sign_in
		say("finish_code", {"show_code": sign_in != null, "attempts_left": attempts_left})
		while _codes.empty():
			yield(_driver, "idle_frame")
			if _client.is_closed():
				return null
		return _codes.pop_front()

	# -- who --

	func do_clock(command):
		_client.clock_shift = command["shift"]
		return Result.ok({})

	func do_policy(_command):
		return yield(_client.policy(), "completed")

	func do_providers(_command):
		var found = yield(_client.providers(), "completed")
		return Result.ok({"providers": found.value}) if found.error == null else found

	func do_sign_in(command):
		var result = yield(_client.sign_in(self, _options(command)), "completed")
		return do_signed_in(command) if result.error == null else result

	func do_ensure_signed_in(command):
		_problem = null
		var signed_in = yield(_client.ensure_signed_in(self, _options(command)), "completed")
		var problem = _driver.error_of(_problem) if _problem else null
		return Result.ok({"signed_in": signed_in, "problem": problem})

	func do_returned(command):
		_client.returned(command["url"])
		return Result.ok({})

	func _options(command):
		var options = {}
		for each in ["provider", "loopback", "return_uri"]:
			if command.get(each) != null:
				options[each] = command[each]
		return options

	func do_finish_code(command):
		_codes.append(command.get("code"))
		return Result.ok({})

	func do_show_code(_command):
		if _sign_in:
			_sign_in.show_code()
		return Result.ok({})

	func do_cancel_sign_in(_command):
		yield(_client.cancel_sign_in(), "completed")
		return Result.ok({})

	func do_signed_in(_command):
		var kept = _client.credential()
		if kept == null:
			return Result.ok({"signed_in": false})
		return Result.ok({"signed_in": true, "player_id": kept.player_id, "session_id": kept.session_id})

	func do_sign_out(command):
		var scope = command.get("scope")
		var notified = yield(_client.sign_out(scope if scope else "this"), "completed")
		return Result.ok({"server_notified": notified.value}) if notified.error == null else notified

	func do_set_name(command):
		var stored = yield(_client.set_name(command["name"]), "completed")
		return Result.ok({"name": stored.value}) if stored.error == null else stored

	func do_whoami(_command):
		return yield(_client.whoami(), "completed")

	func do_sessions(_command):
		var found = yield(_client.list_sessions(), "completed")
		return Result.ok({"sessions": found.value}) if found.error == null else found

	func do_end_session(command):
		return _done(yield(_client.end_session(command["session_id"]), "completed"))

	func do_identities(_command):
		var found = yield(_client.list_identities(), "completed")
		return Result.ok({"identities": found.value}) if found.error == null else found

	func do_link(command):
		var provider = yield(_client.link(self, command.get("provider"), _options(command)), "completed")
		return Result.ok({"provider": provider.value}) if provider.error == null else provider

	func do_unlink(command):
		return _done(yield(_client.unlink(command["provider"]), "completed"))

	func do_delete_player(_command):
		return _done(yield(_client.delete_player(), "completed"))

	func do_erase_saves(_command):
		return _done(yield(_client.erase_saves(), "completed"))

	func do_export(command):
		var size = yield(_client.export_saves(command["file"]), "completed")
		return Result.ok({"size": size.value}) if size.error == null else size

	# -- saves --

	func do_list_saves(_command):
		var found = yield(_client.list_saves(), "completed")
		return Result.ok({"saves": found.value}) if found.error == null else found

	func do_changes(command):
		var wait = command.get("wait")
		return yield(_client.changes(command.get("since"), int(wait) if wait else 0, command.get("limit")), "completed")

	func do_get(command):
		return _save(yield(_client.get_save(command["slot"], command.get("unless")), "completed"))

	func do_put(command):
		var type = command.get("content_type")
		var data = Marshalls.base64_to_raw(command["data"])
		var base = command.get("base")
		type = type if type else "application/octet-stream"
		return yield(_client.put(command["slot"], data, base, command.get("meta"), type), "completed")

	func do_delete(command):
		return _done(yield(_client.delete(command["slot"], command["base"]), "completed"))

	func do_versions(command):
		var found = yield(_client.versions(command["slot"]), "completed")
		return Result.ok({"versions": found.value}) if found.error == null else found

	func do_versions_page(command):
		return yield(_client.versions_page(command["slot"], command.get("before"), command.get("limit")), "completed")

	func do_version(command):
		return _save(yield(_client.version(command["slot"], command["number"]), "completed"))

	func do_restore(command):
		return yield(_client.restore(command["slot"], command["number"], command.get("base")), "completed")

	func do_dismiss(command):
		return _done(yield(_client.dismiss(command["slot"], command["number"]), "completed"))

	func do_commit(command):
		var writes = []
		for write in command["writes"]:
			var one = write.duplicate()
			if one.get("data") != null:
				one["data"] = Marshalls.base64_to_raw(one["data"])
			writes.append(one)
		var saved = yield(_client.commit(writes), "completed")
		return Result.ok({"saves": saved.value}) if saved.error == null else saved

	func _done(result):
		return Result.ok({}) if result.error == null else result

	func _save(result):
		if result.error or result.value == null:
			return result
		var value = result.value.duplicate()
		value["data"] = Marshalls.raw_to_base64(value["data"])
		return Result.ok(value)

	# -- offline play --

	func do_sync_open(_command):
		if _sync:
			_sync.close()
		_sync = Sync.new(_client)
		_sync.connect("changed", self, "_changed")
		return Result.failed(_sync.flaw) if _sync.flaw else Result.ok({})

	func do_sync_close(_command):
		_sync.close()
		return Result.ok({})

	func do_sync_start(_command):
		_sync.run()
		return Result.ok({})

	func do_sync_run(_command):
		return _done(yield(_sync.run(), "completed"))

	func do_sync_stop(_command):
		_sync.stop()
		return Result.ok({})

	func _changed(status):
		say("sync_changed", {"slot": status["slot"], "state": status["state"]})

	func do_sync_ready(command):
		var ready = yield(_sync.ready(command["within"]), "completed")
		return Result.ok({"ready": ready})

	func do_sync_read(command):
		return _save(_sync.read(command["slot"]))

	func do_sync_peek(command):
		return _save(_sync.peek(command["slot"]))

	func do_sync_write(command):
		var type = command.get("content_type")
		var data = Marshalls.base64_to_raw(command["data"])
		type = type if type else "application/octet-stream"
		return _done(_sync.write(command["slot"], data, command.get("meta"), type))

	func do_sync_delete(command):
		return _done(_sync.delete(command["slot"]))

	func do_sync_status(command):
		return Result.ok(_status(_sync.status(command["slot"])))

	func do_sync_slots(_command):
		var found = []
		for status in _sync.slots():
			found.append(_status(status))
		return Result.ok({"slots": found})

	func do_sync_pump(_command):
		var result = yield(_sync.pump(), "completed")
		if result.error:
			return result
		var news = []
		for status in result.value:
			news.append({"slot": status["slot"], "state": status["state"]})
		return Result.ok({"news": news})

	func do_sync_conflicts(_command):
		var found = []
		_shown.clear()
		for conflict in _sync.conflicts():
			_shown[conflict.slot] = conflict
			found.append({
				"slot": conflict.slot,
				"reason": conflict.reason,
				"base": conflict.base_info,
				"current": conflict.current,
				"copy": conflict.copy,
			})
		return Result.ok({"conflicts": found})

	func do_sync_side(command):
		var conflict = _shown[command["slot"]]
		if command["side"] == "mine":
			return _save(conflict.mine())
		if command["side"] == "theirs":
			return _save(yield(conflict.theirs(), "completed"))
		return _save(yield(conflict.base(), "completed"))

	func do_sync_keep_mine(command):
		return _done(_shown[command["slot"]].keep_mine())

	func do_sync_keep_theirs(command):
		return _done(yield(_shown[command["slot"]].keep_theirs(), "completed"))

	func do_sync_merged(command):
		var data = Marshalls.base64_to_raw(command["data"])
		return _done(_shown[command["slot"]].merged(data, command.get("meta")))

	func do_sync_dropped(command):
		return _save(_sync.dropped(command["slot"]))

	func do_sync_trouble(_command):
		return Result.ok({"code": _sync.trouble.code if _sync.trouble else null})

	func _status(status):
		var value = status.duplicate()
		value["problem"] = status["problem"].code if status["problem"] else null
		return value

	# -- downloads --

	# The client keeps releases side by side; the suite looks for the files of the current one.
	func do_download(command):
		var target = command["target"]
		var assets = Assets.new(_client, target + ".releases")
		var result = yield(assets.download(command["channel"]), "completed")
		if result.error:
			return result
		var files = result.value["files"].keys()
		for name in files:
			var to = "%s/%s" % [target, name]
			yield(assets._copied(assets.path(name).value, to, result.value["files"][name]), "completed")
		assets.close()
		return Result.ok({"release": result.value["release"], "files": files})
