-- Settles events that a namespace's queues do not take.
SELECT more FROM headwater.settle_untaken($1)
