import unittest

from shop import total


class Total(unittest.TestCase):
    def test_every_price_counts(self):
        self.assertEqual(total([3, 4]), 7)
