-- Which of these subscribers are paused.
SELECT headwater.paused_subscribers($1, $2)
