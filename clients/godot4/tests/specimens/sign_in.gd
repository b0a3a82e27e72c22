# Signs in with the dialog until it succeeds, then asks for a provider. With LEFT=yes another scene with a dialog of its
# own was closed before.
extends Node

const GamedClient = preload("res://gamed.gd")
const Dialog = preload("res://gamed_dialog.gd")
const PROVIDERS = [{"name": "discord", "label": "Discord"}, {"name": "school", "label": "My School"}]

var said = ""


class Left:
	extends Node

	signal closed

	var asked = false

	func problem(_error):
		asked = true
		await closed


func _ready():
	var seconds = float(OS.get_environment("RETURN_SECONDS"))
	var how = {"pauses": 0.01, "return_seconds": seconds, "locale": OS.get_environment("GAME_LOCALE")}
	var client = GamedClient.new(OS.get_environment("GAMED_SERVER"), how)
	var dialog = Dialog.new(client)
	if OS.get_environment("LEFT") == "yes":
		var left = Left.new()
		client.ensure_signed_in(left)
		while not left.asked:
			await get_tree().process_frame
		left.free()
	var options = {"loopback": OS.get_environment("LOOPBACK") != "no"}
	var failed = 0
	var signed_in = false
	while not signed_in:
		signed_in = await client.ensure_signed_in(dialog, options)
		failed += 0 if signed_in else 1
		said = "%s %d" % ["signed in" if signed_in else "not signed in", failed]
	var chosen = await dialog.choose_provider(PROVIDERS)
	said = chosen
