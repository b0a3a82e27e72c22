# Prints the link that the dialog shows, for both versions of the engine: an autoload beside a game.
extends Node

var _last = ""


func _process(_delta):
	for each in get_tree().get_root().get_children():
		if each.has_method("browser_opened") and each._shade.visible and each._url != _last:
			_last = each._url
			print("LINK ", _last)
