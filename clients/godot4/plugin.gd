@tool
# The add-on: it registers the autoload `Gamed` and its settings, and lets Android open the game after a sign-in.
extends EditorPlugin

const AUTOLOAD = "Gamed"
const SETTINGS = preload("gamed_autoload.gd").SETTINGS
const RETURN_URI = "gamed/return_uri"

var _opening := OpenedByLink.new()


func _enter_tree() -> void:
	for name: String in SETTINGS:
		if not ProjectSettings.has_setting(name):
			ProjectSettings.set_setting(name, SETTINGS[name])
		ProjectSettings.set_initial_value(name, SETTINGS[name])
		ProjectSettings.set_as_basic(name, true)
	add_export_plugin(_opening)


func _exit_tree() -> void:
	remove_export_plugin(_opening)


func _enable_plugin() -> void:
	add_autoload_singleton(AUTOLOAD, get_script().resource_path.get_base_dir() + "/gamed_autoload.gd")


func _disable_plugin() -> void:
	remove_autoload_singleton(AUTOLOAD)


# Adds an intent filter for `gamed/return_uri` to the manifest, which each export for Android writes anew. It needs
# Godot 4.2 and a Gradle build.
class OpenedByLink:
	extends EditorExportPlugin

	func _get_name() -> String:
		return "gamed"

	func _supports_platform(platform: EditorExportPlatform) -> bool:
		return platform.get_class() == "EditorExportPlatformAndroid"

	func _get_android_manifest_activity_element_contents(_platform: EditorExportPlatform, _debug: bool) -> String:
		return filter_of(str(ProjectSettings.get_setting(RETURN_URI)))

	# A scheme of its own without a host opens the game with every address of the scheme.
	static func filter_of(uri: String) -> String:
		if uri == "":
			return ""
		var scheme := uri.split(":")[0]
		var rest := uri.substr(scheme.length() + 1).split("?")[0]
		var data := 'android:scheme="%s"' % scheme.xml_escape(true)
		if rest.begins_with("//"):
			var host := rest.substr(2).split("/")[0].split(":")[0]
			var path := rest.substr(2 + rest.substr(2).split("/")[0].length())
			data += ' android:host="%s"' % host.xml_escape(true)
			if path != "":
				data += ' android:path="%s"' % path.xml_escape(true)
		var lines := [
			'<intent-filter android:autoVerify="true">' if scheme == "https" else "<intent-filter>",
			'<action android:name="android.intent.action.VIEW" />',
			'<category android:name="android.intent.category.DEFAULT" />',
			'<category android:name="android.intent.category.BROWSABLE" />',
			"<data %s />" % data,
			"</intent-filter>",
		]
		return "\n".join(PackedStringArray(lines))
