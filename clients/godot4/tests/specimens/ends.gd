# Ends calls early, and says how each one has ended.
extends SceneTree

const Client = preload("res://gamed.gd")
const Sync = preload("res://gamed_sync.gd")
const Assets = preload("res://gamed_assets.gd")
const Dialog = preload("res://gamed_dialog.gd")
const Autoload = preload("res://gamed_autoload.gd")
const Platform = Client.Platform

var _dropped = null


class Person:
	extends RefCounted

	var client = null

	func open_browser(_url):
		return true

	func browser_opened(_url, _opened, _qr_url):
		client.close()


func _init():
	Engine.max_fps = 500
	call_deferred("_play")


func _made(folder):
	var how = {"folder": folder, "pauses": 0.01, "device_name": "test"}
	return Client.new(OS.get_environment("GAMED_SERVER"), how)


func _say(what, result):
	print("ENDS ", what, " ", result.error.code if result.error else "ok")


func _play():
	for script in [Sync, Assets, Dialog, Autoload]:
		print("ENDS older name: ", script.GamedClient == Client)
	var folder = OS.get_environment("GAMED_FOLDER")
	var client = _made(folder)
	var complete = {"player": {"id": "ply_anna"}, "session_id": "ses_1", "provider": "local", "expires_in": 900}
	complete["refresh_credential"] = "grc_1"
	complete["access_token"] = "gat_1"
	_dropped = _made(folder)
	_drop_soon()
	_say("dropped", await _dropped.keep(complete))
	_say("kept", await client.keep(complete))
	var cancellation = Client.Cancellation.new()
	var ending = client.cancellable(cancellation)
	_say("first", await ending.policy())
	cancellation.cancel()
	cancellation.cancel()
	_say("cancelled", await ending.policy())
	_say("sign-out", await ending.sign_out())
	_say("other", await client.policy())
	await _wait_for_lock(client)
	await _run_saves(client)
	print("ENDS signed in: ", client.signed_in())
	client.close()
	_say("closed", await client.policy())
	_say("last sign-out", await client.sign_out())
	print("ENDS signed in: ", client.signed_in())
	var person = Person.new()
	person.client = _made(folder)
	_say("sign-in", await person.client.sign_in(person, {"loopback": false}))
	quit()


# Another process has the lock of the credential.
func _wait_for_lock(client):
	var lock = Client.Claim.take(client.folder, client.place())
	var cancellation = Client.Cancellation.new()
	_cancel_soon(cancellation)
	_say("sign-out without the lock", await client.cancellable(cancellation).sign_out())
	lock.drop()


func _run_saves(client):
	var cancellation = Client.Cancellation.new()
	var saves = Sync.new(client.cancellable(cancellation))
	_cancel_soon(cancellation)
	_say("run", await saves.run())
	saves.close()


func _cancel_soon(cancellation):
	for _frame in range(20):
		await Platform.frame()
	cancellation.cancel()


# The game drops the client while it waits for the disk.
func _drop_soon():
	await Platform.frame()
	await Platform.frame()
	_dropped = null
