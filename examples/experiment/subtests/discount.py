import unittest

from shop import discount


class Discount(unittest.TestCase):
    def test_a_quarter_off(self):
        self.assertEqual(discount(80, 25), 60)

    def test_it_is_never_below_0(self):
        self.assertEqual(discount(80, 125), 0)
