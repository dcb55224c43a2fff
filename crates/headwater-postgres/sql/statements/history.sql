-- What identifies the server's past; it begins here, if it has not.
SELECT headwater.begin_history()
