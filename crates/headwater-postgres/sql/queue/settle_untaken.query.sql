-- Settles events that the queues of a namespace do not take.
SELECT more FROM headwater.settle_untaken($1)
