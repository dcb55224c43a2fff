-- Where a subscriber stands, a row a partition; or one of them. Of a shared one, the queue knows.
SELECT * FROM headwater.subscriber_position($1, $2, $3)
