## The autoload `Gamed` of the add-on: one client, and its saves, for the whole game.
##
## [codeblock]
##     func _ready():
##         if await Gamed.start():
##             var found = Gamed.saves.read("auto")
## [/codeblock]
##
## The plugin registers it, and its settings in the project settings. Without the plugin add this script to the
## autoloads, with the name `Gamed`.
extends Node

signal changed(status: Dictionary)  ## that of `saves`, also after another player's have replaced them
signal problem_changed(problem: Client.GamedError)  ## That of `saves`: a GamedError or null.
signal trouble_changed(problem: Client.GamedError)  ## @deprecated: The older name of [signal problem_changed].

const Client = preload("gamed.gd")
@warning_ignore("shadowed_global_identifier") const GamedClient = Client  ## @deprecated: The older name of Client.
const Sync = preload("gamed_sync.gd")
const Dialog = preload("gamed_dialog.gd")
const Platform = Client.Platform
const SETTINGS = Platform.SETTINGS
const APP_CHARACTERS = Client.Tools.ALPHANUMERIC + " ._-"

var client: Client = null  ## for the server in the project settings
var saves: Sync = null  ## a Sync that runs, after `start`

var _starting: bool = false
var _shown: Dialog = null  # the dialog of `client`


func _init() -> void:
	change_server(_setting("gamed/server"))


func _exit_tree() -> void:
	_close()


func _notification(what: int) -> void:
	var url: Variant = Platform.opened_url(what)
	if url is String:
		client.returned(url)


## Another server: its address as the player typed it, and the options of the client. GamedError if it is not an
## address, or null. Then `start` signs in there.
func change_server(server: String, options: Dictionary = {}) -> Client.GamedError:
	_close()
	var all := options.duplicate()
	if not all.has("app"):
		all["app"] = app_name()
	client = Client.new(server, all)
	return client.problem


## @deprecated: The older name of [method change_server]; it works until 1.0.
func use(server: String, options: Dictionary = {}) -> Client.GamedError:
	return change_server(server, options)


## Signs in if necessary, and opens the saves. True: a player is signed in and the saves can be used, without a network,
## too. False: the player has seen the problem; `saves.is_open()` if saves can be kept here all the same, until a
## later `start` takes them along. Call it again after `client.session_ended`. `person` and `options` are those of
## `sign_in`; null: a ready dialog.
func start(person: Object = null, options: Dictionary = {}) -> bool:
	while _starting:
		await Platform.frame()
	_starting = true
	person = person if person else _dialog()
	var all := options.duplicate()
	if Platform.return_uri() != "" and not all.has("return_uri"):
		all["return_uri"] = Platform.return_uri()
	var signed_in := await client.ensure_signed_in(person, all)
	_open()
	if saves.is_open():
		await saves.ready()
	elif signed_in and person.has_method("problem"):
		var _again: Variant = await person.problem(saves.problem)
	_starting = false
	return signed_in and saves.is_open()


## The game's name for players: the setting, or the project's name without the characters that it cannot have.
func app_name() -> String:
	var entered := _setting("gamed/app")
	if entered != "":
		return entered
	var made := ""
	for letter: String in str(ProjectSettings.get_setting("application/config/name")):
		made += letter if letter in APP_CHARACTERS else ""
	made = made.lstrip(" ._-").substr(0, 64).strip_edges()
	return made if made != "" else "game"


func _setting(name: String) -> String:
	return str(ProjectSettings.get_setting(name)) if ProjectSettings.has_setting(name) else SETTINGS[name]


# The same Sync adopts saves from before the first sign-in.
func _open() -> void:
	var kept := client.credential()
	var player := kept.player_id if kept else ""
	if saves == null or not saves.is_open() or not saves.player_id in ["", player]:
		_close_saves()
		saves = Sync.new(client)
		saves.changed.connect(_on_changed)
		saves.problem_changed.connect(_on_problem_changed)
	if saves.is_open():
		saves.run()  # an earlier one has ended with the session


func _dialog() -> Dialog:
	if _shown == null:
		_shown = Dialog.new(client)
	return _shown


func _on_changed(status: Dictionary) -> void:
	changed.emit(status)


func _on_problem_changed(problem: Client.GamedError) -> void:
	problem_changed.emit(problem)
	trouble_changed.emit(problem)


func _close_saves() -> void:
	if saves:
		saves.close()
		saves = null


func _close() -> void:
	_close_saves()
	if _shown:
		_shown.queue_free()
		_shown = null
	if client:
		client.close()
