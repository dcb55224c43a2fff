-- Makes an instance a member of groups, or renews its membership.
SELECT subscriber_id, partitions, members, halted, holds_lock FROM headwater.join_groups($1, $2, $3, $4, $5, $6, $7)
