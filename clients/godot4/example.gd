# A game in one node: make a scene of a VBoxContainer with this script, beside gamed.gd and gamed_sync.gd.
# It signs the player in, counts presses of a button, keeps the count in a save, and asks the player in a conflict.
extends VBoxContainer

signal answered(text: String)

const Client = preload("gamed.gd")
const Sync = preload("gamed_sync.gd")

var client: Client
var saves: Sync
var presses: int = 0

var _words := Label.new()
var _code := LineEdit.new()
var _button := Button.new()


func _ready() -> void:
	for part: Control in [_words, _code, _button]:
		add_child(part)
	_code.hide()
	_code.text_submitted.connect(_on_code_entered)
	_button.pressed.connect(_on_pressed)
	var server := OS.get_environment("GAMED_SERVER")  # a game asks its player, and keeps the answer
	client = Client.new(server if server != "" else "http://127.0.0.1:8080", {"app": "example"})
	client.session_ended.connect(_on_session_ended)
	var signed_in := await client.ensure_signed_in(self)
	_code.hide()
	if not signed_in:
		return
	saves = Sync.new(client)
	if not saves.is_open():
		_words.text = saves.problem.detail
		return
	saves.changed.connect(_on_save_changed)
	saves.problem_changed.connect(_on_problem_changed)
	saves.run()
	await saves.ready()
	_load()


func _exit_tree() -> void:
	if saves:
		saves.close()
	client.close()


# -- the person of a sign-in --


func browser_opened(url: String, opened: bool, _qr_url: Variant) -> void:
	_words.text = "Continue in your browser." if opened else "Open this in a browser: " + url
	_button.text = ""


func finish_code(sign_in: Client.SignIn, attempts_left: Variant) -> String:
	_code.show()
	_button.text = "Show me a code"
	_words.text = "Type the code that your browser shows."
	if attempts_left != null:
		_words.text = "That was not it. %d more tries." % attempts_left
	var typed := ""
	while Client.finish_code(typed) == null:
		typed = await answered
		if typed == "" and sign_in:
			sign_in.show_code()
	return typed


# True to try again.
func problem(error: Client.GamedError) -> bool:
	_code.hide()
	_words.text = error.detail
	if client.signed_in():  # no network: the game continues with the saves of this device
		return false
	_button.text = "Try again"
	await answered
	return true


# -- the game --


func _on_code_entered(text: String) -> void:
	answered.emit(text)


func _on_pressed() -> void:
	answered.emit("")
	if saves == null or not saves.is_open():
		return
	var conflicts := saves.conflicts()
	if conflicts.size() > 0:  # a game shows both sides and two buttons
		var chosen: Variant = await conflicts[0].keep_theirs()
		if chosen.error:
			_words.text = chosen.error.detail
			return
		_load()
		return
	presses += 1
	var written := saves.write("auto", str(presses), {"title": "%d presses" % presses})
	_show("Saved here." if written.error == null else written.error.detail)


func _load() -> void:
	var found := saves.read("auto")
	if found.error:
		presses = 0
		_show(found.error.detail)
		return
	presses = int(found.value["data"].get_string_from_utf8()) if found.value else 0
	_show("Loaded." if found.value else "A new game.")


func _on_save_changed(status: Dictionary) -> void:
	if status["slot"] != "auto":
		return
	match status["state"]:
		Sync.IN_STEP:
			_show("Saved there, too.")
		Sync.NEWER:  # a game asks first, when its player is in the middle of something
			_load()
		Sync.CONFLICT:
			_words.text = "Changed on another device, too. Take theirs?"
			_button.text = "Take theirs"
		Sync.REFUSED:
			_show(status["problem"].detail)


func _on_session_ended(_code: String) -> void:
	_words.text = "You were signed out. Start the game again."


func _on_problem_changed(error: Client.GamedError) -> void:
	_show("Offline: " + error.detail if error else "In touch again.")


func _show(text: String) -> void:
	_words.text = "%d presses. %s" % [presses, text]
	_button.text = "Press"
