# A game in a page: the test reads what it prints, and types the code that the browser shows.
extends Node


func open_browser(url):
	print("LINK ", url)
	return true


func finish_code(_sign_in, _attempts_left):
	while true:
		await get_tree().process_frame
		var code = JavaScriptBridge.eval("window.typedCode || ''")
		if code != "":
			return code


func problem(error):
	print("PROBLEM ", error.code)


func _ready():
	await Gamed.start(self)
	if Gamed.saves.is_open():
		var save = Gamed.saves.read("level").value
		var level = int(save["data"].get_string_from_utf8()) + 1 if save else 1
		Gamed.saves.write("level", str(level))
		while Gamed.saves.status("level")["state"] != "in_step":  # the server has it
			await get_tree().process_frame
		print("Level %d" % level)
