# Stands in for Android: opens the game with the address that the test writes into a file.
extends Node

const OPENED = "res://opened.txt"

var _url = null


func _init():
	Engine.register_singleton("AndroidRuntime", self)


func getActivity():
	return self


func getIntent():
	return self


func getDataString():
	return _url


func _process(_delta):
	if FileAccess.file_exists(OPENED):
		_url = FileAccess.get_file_as_string(OPENED)
		DirAccess.remove_absolute(ProjectSettings.globalize_path(OPENED))
		print("Opened by the browser")
		get_tree().get_root().propagate_notification(NOTIFICATION_APPLICATION_RESUMED)
