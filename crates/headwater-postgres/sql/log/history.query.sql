-- Returns what identifies the server's past. If there is no history yet, one begins here.
SELECT headwater.begin_history()
