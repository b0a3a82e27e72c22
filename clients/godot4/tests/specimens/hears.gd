# Saves on a broken disk, and says what it hears of that. The server is away.
extends SceneTree

const Client = preload("res://gamed.gd")
const Sync = preload("res://gamed_sync.gd")
const Platform = Client.Platform

var _left = 2


func _init():
	call_deferred("_play")


func _play():
	var client = Client.new("http://127.0.0.1:1", {"folder": OS.get_environment("GAMED_FOLDER"), "device_name": "test"})
	var complete = {"player": {"id": "ply_anna"}, "session_id": "ses_1", "provider": "local", "expires_in": 900}
	complete["refresh_credential"] = "grc_1"
	complete["access_token"] = "gat_1"
	await client.keep(complete)
	var saves = Sync.new(client)
	saves.problem_changed.connect(_on_problem_changed)
	saves.changed.connect(_on_changed)
	print("HEARS write ", saves.write("auto", "level 1").error)
	saves.run()
	while _left > 0:
		await Platform.frame()
	saves.close()
	quit()


func _on_problem_changed(problem):
	if problem != null and problem.code == "local_disk":
		print("HEARS problem ", problem.kind)
		_left -= 1


func _on_changed(status):
	if status["problem"] != null:
		print("HEARS status ", status["slot"], " ", status["problem"].code)
		_left -= 1
