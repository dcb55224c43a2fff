-- Returns how far the log can be read now.
SELECT headwater.log_end($1)
