@tool
# Enables and disables the add-on as a developer does in the editor, prints what it adds to the project and to an Android
# manifest, and ends the editor.
extends EditorPlugin

const NAMES = ["autoload/Gamed", "gamed/server", "gamed/app", "gamed/return_uri"]
const URIS = ["", "com.example.game:/signin", "com.example.game://signin", "https://app.example.org/a&b?c=d"]


func _enter_tree():
	_switch.call_deferred()


func _switch():
	var editor = get_editor_interface()
	while editor.get_resource_filesystem().is_scanning():
		await get_tree().process_frame
	for enabled in [true, false]:
		editor.set_plugin_enabled("gamed", enabled)
		for name in NAMES:
			if ProjectSettings.has_setting(name):
				print("%s HAS %s" % [enabled, name])
	var opening = load("res://addons/gamed/plugin.gd").OpenedByLink.new()
	for uri in URIS:
		ProjectSettings.set_setting("gamed/return_uri", uri)
		var text = opening._get_android_manifest_activity_element_contents(null, false)
		print("FILTER ", text.replace("\n", ""))
	get_tree().quit()
