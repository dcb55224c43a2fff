-- Records the months to which nothing can be added any more.
SELECT headwater.seal_months($1)
