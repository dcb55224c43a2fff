-- Changes the number of partitions.
SELECT headwater.resize_group($1, $2, $3)
