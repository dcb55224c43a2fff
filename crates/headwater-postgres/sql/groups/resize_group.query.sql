-- Changes the number of partitions of a group.
SELECT headwater.resize_group($1, $2, $3)
