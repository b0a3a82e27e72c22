# The player in front of gamed_dialog.gd, for both versions of the engine: an autoload beside a game. It sends a line for
# everything that the dialog shows, and presses and types what the test sends.
extends Node

var _test = StreamPeerTCP.new()
var _last = ""
var _sent = ""  # lines of the test that are not done yet


func _ready():
	_test.connect_to_host("127.0.0.1", int(OS.get_environment("GAMED_TEST_PORT")))


func _process(_delta):
	if _test.has_method("poll"):
		_test.poll()
	if _test.get_status() != StreamPeerTCP.STATUS_CONNECTED:
		return
	for dialog in get_tree().get_root().get_children():
		if dialog.has_method("choose_provider"):
			_report(_shown(dialog))
			if _test.get_available_bytes() > 0:
				_sent += _test.get_utf8_string(_test.get_available_bytes())
			var end = _sent.find("\n")
			if end >= 0:  # one in a frame: the next one may need what the first one shows
				var line = _sent.substr(0, end)
				_sent = _sent.substr(end + 1, _sent.length())
				_use(dialog, line)


func _shown(dialog):
	var shown = "hidden"
	if dialog._shade.visible:
		shown = dialog._words.text.replace("\n", " ")
		shown += "\t" + dialog._field.text if dialog._field.visible else "\t"
		for button in dialog._buttons.get_children():
			shown += "\t" + button.text
	var scene = get_tree().get_current_scene()
	return "%s\t%s" % [scene.get("said") if scene else "", shown]


func _report(shown):
	if shown != _last:
		_last = shown
		_test.put_data((shown + "\n").to_utf8_buffer() if _test.has_method("poll") else (shown + "\n").to_utf8())


func _use(dialog, line):
	var button = line.substr(6, line.length()) if line.begins_with("press ") else "Continue"
	if line.begins_with("type "):
		dialog._field.text = line.substr(5, line.length())
	for each in dialog._buttons.get_children():
		if each.text == button:
			each.emit_signal("pressed")
			return
