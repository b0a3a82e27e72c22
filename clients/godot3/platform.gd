# The class Platform of gamed.gd for Godot 3, in place of the one for Godot 4, which describes each function.
extends Reference

const NAME = "Godot 3"
const UNREADABLE = -1  # no character: this engine reads the texts of a manifest as they are
# The engine asks one address of a name only, and cannot write "::1" into the head of a request.
const LOOPBACK = {"localhost": "127.0.0.1", "::1": "localhost"}
const SETTINGS = {
	"gamed/server": "http://127.0.0.1:8080",
	"gamed/app": "",  # the project's name
}
const UNIX = ["linux", "macos"]


static func frame():
	yield(Engine.get_main_loop(), "idle_frame")


static func system():
	var names = {"OSX": "macos", "X11": "linux", "Server": "linux"}
	return names.get(OS.get_name(), OS.get_name().to_lower())


static func is_web():
	return OS.has_feature("HTML5")


static func in_page(script):
	return JavaScript.eval(script) if OS.has_feature("JavaScript") else null


static func execute(program, arguments, output):
	return OS.execute(program, arguments, true, output) == 0


static func now():
	return OS.get_unix_time()


static func utc(seconds):
	var t = OS.get_datetime_from_unix_time(seconds)
	var parts = [t["year"], t["month"], t["day"], t["hour"], t["minute"], t["second"]]
	return "%04d-%02d-%02dT%02d:%02d:%02dZ" % parts


# The client parses objects only. For an empty file and the like the parser would print an error on the console.
static func parsed(text):
	return JSON.parse(text).result if text.lstrip(" \t\r\n").begins_with("{") else null


static func json(value):
	return JSON.print(value, "", true)


static func join(parts, between):
	return PoolStringArray(parts).join(between)


# `subarray` has an inclusive end, and refuses an empty range.
static func slice(bytes, begin, end):
	return bytes.subarray(begin, end - 1) if begin < end else PoolByteArray()


static func open(path, mode):
	var file = File.new()
	return file if file.open(path, mode) == OK else null


static func has_file(path):
	return File.new().file_exists(path)


static func has_folder(path):
	return Directory.new().dir_exists(path)


static func make_folder(path):
	return Directory.new().make_dir(path) == OK


static func make_folders(path):
	return Directory.new().make_dir_recursive(path) == OK


static func rename(path, other):
	return Directory.new().rename(path, other) == OK


static func remove(path):
	return Directory.new().remove(path) == OK


# Godot 3 gives the free space as an int of 32 bits: a disk with 8 GiB and a little would look full. So it is never
# known here, and a full disk is found by the write that fails.
static func free_bytes(_path):
	return 0


static func names(path):
	var found = []
	var directory = Directory.new()
	if directory.open(path) != OK or directory.list_dir_begin(true, false) != OK:
		return found
	var name = directory.get_next()
	while name != "":
		found.append(name)
		name = directory.get_next()
	directory.list_dir_end()
	found.sort()
	return found


static func connect_http(http, host, port, secure):
	return http.connect_to_host(host, port, secure, true)


# The engine always writes this field itself.
static func host_fields(_authority):
	return {}


# The engine cannot name the port that the system would choose.
static func listen(server):
	var random = RandomNumberGenerator.new()
	random.randomize()
	for _attempt in range(30):
		var port = random.randi_range(20000, 60000)
		if server.listen(port, "127.0.0.1") == OK:
			return port
	return 0


static func poll(_peer):
	pass


# The engine passes the method an argument.
static func start(thread, target, method):
	return thread.start(target, method) == OK


static func wrap_lines(label):
	label.autowrap = true


static func scale_picture(picture):
	picture.expand = true


# Without flags, so that the picture keeps hard edges.
static func texture_of(image):
	var texture = ImageTexture.new()
	texture.create_from_image(image, 0)
	return texture


# The engine draws letters in the order in which they are stored, unconnected. Its own font has those of western
# Europe.
static func can_draw(texts):
	var font = ProjectSettings.get_setting("gui/theme/custom_font")
	var own = font == null or str(font) == ""
	return not texts.is_right_to_left() and (not own or texts.is_latin())


static func turn(_control):
	pass


static func opened_url(_notification):
	return null


static func return_uri():
	return ""
