# Plays example.gd: says what it shows, and presses its button when it may.
extends SceneTree

var _pressed = false


# Opens no browser on the machine that runs the tests.
class Game:
	extends "res://example.gd"

	func open_browser(_url):
		return false


func _init():
	Engine.max_fps = 200
	call_deferred("_play")


func _play():
	var game = Game.new()
	get_root().add_child(game)
	var last = ""
	while not last.begins_with("1 presses. Saved there"):
		await process_frame
		if game._words.text != last:
			last = game._words.text
			print("SHOWS ", last)
		if game._button.text == "Press" and not _pressed:
			_pressed = true
			game._button.emit_signal("pressed")
	get_root().remove_child(game)
	game.queue_free()
	await create_timer(0.2).timeout
	quit()
