## A ready dialog for gamed.gd: the sign-in of a game, until the game draws its own. Copy it and gamed_texts.gd beside
## gamed.gd.
##
## [codeblock]
##     const Dialog = preload("res://gamed_dialog.gd")
##     var signed_in = await client.ensure_signed_in(Dialog.new(client))
## [/codeblock]
##
## It shows a button for each provider, the link with its QR code, a field for the six letters, and every problem in
## words, above all that the game draws. Its texts are in the client's `locale`. It adds itself to the root of the scene
## tree, and shows nothing otherwise.
class_name GamedDialog
extends CanvasLayer

signal answered(value: Variant)  ## The player has chosen, typed a code, or closed the dialog.

const Client = preload("gamed.gd")
@warning_ignore("shadowed_global_identifier") const GamedClient = Client  ## @deprecated: The older name of Client.
const Platform = Client.Platform
const Texts = preload("gamed_texts.gd")
const WIDTH = 360
const PICTURE_SIZE = 176

var _client: Client
var _texts: Texts
var _url: String = ""
var _asking: Variant = null  # the SignIn that waits for its code
var _shade := ColorRect.new()
var _body := VBoxContainer.new()
var _words := Label.new()
var _field := LineEdit.new()
var _picture := TextureRect.new()
var _buttons := VBoxContainer.new()


func _init(client: Client) -> void:
	_client = client
	_texts = Texts.new(client.language())
	if not Platform.can_draw(_texts):
		_texts = Texts.new("")
	layer = 100
	_shade.color = Color(0, 0, 0, 0.6)
	_shade.set_anchors_preset(Control.PRESET_FULL_RECT)
	_shade.hide()
	add_child(_shade)
	var middle := CenterContainer.new()
	middle.set_anchors_preset(Control.PRESET_FULL_RECT)
	_shade.add_child(middle)
	var panel := PanelContainer.new()
	middle.add_child(panel)
	if _texts.is_right_to_left():
		Platform.turn(panel)
	_body.custom_minimum_size = Vector2(WIDTH, 0)
	panel.add_child(_body)
	for part: Control in [_words, _field, _picture, _buttons]:
		_body.add_child(part)
	Platform.wrap_lines(_words)
	_field.text_submitted.connect(_on_answered)
	Platform.scale_picture(_picture)
	_picture.stretch_mode = TextureRect.STRETCH_KEEP_ASPECT_CENTERED
	_picture.custom_minimum_size = Vector2(PICTURE_SIZE, PICTURE_SIZE)
	Engine.get_main_loop().get_root().call_deferred("add_child", self)


# --- What a sign-in calls ---------------------------------------------------------------------------------------------


## Shows a button for each provider; returns the name of the chosen one.
func choose_provider(providers: Array) -> Variant:
	_show(_texts.text("How do you want to sign in?"))
	for provider: Dictionary in providers:
		var label := _texts.text("Sign in with {provider}", {"provider": provider["label"]})
		_add_button(label, "_on_answered", provider["name"])
	_add_button(_texts.text("Cancel"), "_on_answered", null)
	return await answered


## Shows the link that continues the sign-in, and its QR code if the browser was not opened.
func browser_opened(url: String, opened: bool, qr_url: Variant) -> void:
	_url = url
	if _asking:  # it opened the page that shows the code
		return
	var words := "The sign-in continues in your browser."
	if not opened:
		words = "Open this address in your browser to sign in:"
	_show(_texts.text(words))
	_field.text = url
	_field.editable = false
	_field.show()
	_add_button(_texts.text("Open the page"), "_on_open")
	if qr_url:
		_add_button(_texts.text("Use a phone instead"), "_on_phone", qr_url)
	_add_button(_texts.text("Cancel"), "_on_cancel")


## Asks for the code that the browser shows; null if the player does not type one.
func finish_code(sign_in: Client.SignIn, attempts_left: Variant) -> Variant:
	_asking = sign_in
	_show(_texts.text("Type the six letters that the sign-in page shows."))
	if attempts_left != null:
		_words.text = _texts.text("That is not the code. Attempts left: {count}", {"count": attempts_left})
	_field.text = ""
	_field.editable = true
	_field.show()
	_field.grab_focus()
	_add_button(_texts.text("Continue"), "_on_continue")
	if sign_in:
		_add_button(_texts.text("Show me a code"), "_on_show_code")
	_add_button(_texts.text("Cancel"), "_on_cancel")
	var typed: Variant = await answered
	while typed != null and Client.finish_code(typed) == null:
		_words.text = _texts.text("The code has six letters, like BKT-RVW.")
		typed = await answered
	return typed


## True to try again. A cancelled sign-in shows nothing.
func problem(error: Client.GamedError) -> bool:
	if error.code == "login_cancelled":
		return false
	_show(_texts.problem(error))
	_add_button(_texts.text("Try again"), "_on_answered", true)
	_add_button(_texts.text("Continue"), "_on_answered", false)
	var again: Variant = await answered
	_shade.hide()
	return again is bool and again


## The sign-in is over, with or without a session.
func ended() -> void:
	_asking = null
	_shade.hide()
	answered.emit(null)


# --- What the player presses ------------------------------------------------------------------------------------------


func _on_answered(value: Variant) -> void:
	answered.emit(value)


func _on_continue() -> void:
	answered.emit(_field.text)


func _on_open() -> void:
	Client.open_browser(_url)


func _on_show_code() -> void:
	_asking.show_code()


# Shows the link as a picture, which the server draws. A link works in one browser only.
func _on_phone(url: String) -> void:
	var request := HTTPRequest.new()
	request.max_redirects = 0
	request.timeout = 10
	add_child(request)
	request.request_completed.connect(_on_picture.bind(request))
	if request.request(url) != OK:
		request.queue_free()


func _on_cancel() -> void:
	_client.cancel_sign_in()


# --- The parts --------------------------------------------------------------------------------------------------------


func _show(words: String) -> void:
	_words.text = words
	_field.hide()
	_picture.hide()
	for button: Node in _buttons.get_children():
		_buttons.remove_child(button)
		button.queue_free()
	_shade.show()


func _add_button(text: String, method: String, value: Variant = null) -> void:
	var button := Button.new()
	button.text = text
	button.pressed.connect(callv.bind(method, [value] if method in ["_on_answered", "_on_phone"] else []))
	_buttons.add_child(button)
	if _buttons.get_child_count() == 1 and not (_field.visible and _field.editable):
		button.grab_focus()  # for keys and gamepads


func _on_picture(
	_result: int, status: int, _headers: PackedStringArray, bytes: PackedByteArray, request: HTTPRequest
) -> void:
	request.queue_free()
	var image := Image.new()
	if _asking or not _shade.visible:
		return
	if status != 200 or image.load_png_from_buffer(bytes) != OK:
		_words.text = _texts.text("A browser has used the link already. Continue there, or cancel and sign in again.")
		return
	_picture.texture = Platform.texture_of(image)
	_picture.show()
	_words.text = _texts.text("To sign in with a phone, scan this:")
