tool
# Enables and disables the add-on as a developer does in the editor, prints what it adds to the project, and ends the
# editor.
extends EditorPlugin

const NAMES = ["autoload/Gamed", "gamed/server", "gamed/app"]


func _enter_tree():
	call_deferred("_switch")


func _switch():
	var editor = get_editor_interface()
	while editor.get_resource_filesystem().is_scanning():
		yield(get_tree(), "idle_frame")
	for enabled in [true, false]:
		editor.set_plugin_enabled("gamed", enabled)
		for name in NAMES:
			if ProjectSettings.has_setting(name):
				print("%s HAS %s" % [enabled, name])
	get_tree().quit()
