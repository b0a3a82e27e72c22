tool
# The add-on: it registers the autoload `Gamed` and the project settings `gamed/server` and `gamed/app`.
extends EditorPlugin

const AUTOLOAD = "Gamed"
const SETTINGS = preload("gamed_autoload.gd").SETTINGS


func _enter_tree():
	for name in SETTINGS:
		if not ProjectSettings.has_setting(name):
			ProjectSettings.set_setting(name, SETTINGS[name])
		ProjectSettings.set_initial_value(name, SETTINGS[name])


func enable_plugin():
	add_autoload_singleton(AUTOLOAD, get_script().resource_path.get_base_dir() + "/gamed_autoload.gd")


func disable_plugin():
	remove_autoload_singleton(AUTOLOAD)
