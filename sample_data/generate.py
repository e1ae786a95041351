"""Writes the sample data: a shop and an order book, each with three days of changes.

In:  nothing but the seeds below; neither the clock nor the environment is read.
Out: ``<shop|book>/day0/<table>.parquet`` holds the initial rows of every table, and
     ``<shop|book>/day<1..3>/<table>.parquet`` the changes of each table that changed that day.
     A change file has the column ``op`` ('insert', 'delete' or 'update') before the table's own
     columns. Updates carry the full new row and deletes the full old row; both mean every row
     that has the same key. README.md beside this file describes the content.

``python generate.py`` rewrites all files.
``python generate.py --check`` exits with 1 if the files hold other rows than it would write.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Generic, NamedTuple, TypeVar

# pyarrow has no type stubs. "unused-ignore" keeps these lines valid as well for a mypy
# configuration that already ignores missing stubs.
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

HERE = Path(__file__).resolve().parent

# Two seeds, so that a change to one data set does not reshuffle the other.
SHOP_SEED = 20250331
BOOK_SEED = 19700101

DAY_0 = date(2025, 3, 31)  # the last of a month, so day 1 opens a new group in monthly views
FIRST_ORDER_DATE = date(2024, 1, 1)


# --- Row types -----------------------------------------------------------------------------------


class Customer(NamedTuple):
    id: int
    name: str
    region: str | None
    segment: str
    joined: date


class Product(NamedTuple):
    id: int
    title: str
    category: str | None
    price: Decimal
    active: bool


class Order(NamedTuple):
    id: int
    customer_id: int | None
    status: str
    ordered_on: date
    discount: Decimal | None


class OrderItem(NamedTuple):
    order_id: int
    product_id: int
    quantity: int
    amount: Decimal | None


class Quote(NamedTuple):
    """One bid or one ask."""

    t: int
    id: int
    broker_id: int
    price: Decimal
    volume: Decimal


CUSTOMER_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("region", pa.string()),
        pa.field("segment", pa.string(), nullable=False),
        pa.field("joined", pa.date32(), nullable=False),
    ]
)
PRODUCT_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("title", pa.string(), nullable=False),
        pa.field("category", pa.string()),
        pa.field("price", pa.decimal128(10, 2), nullable=False),
        pa.field("active", pa.bool_(), nullable=False),
    ]
)
ORDER_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("customer_id", pa.int64()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("ordered_on", pa.date32(), nullable=False),
        pa.field("discount", pa.decimal128(4, 2)),
    ]
)
ORDER_ITEM_SCHEMA = pa.schema(
    [
        pa.field("order_id", pa.int64(), nullable=False),
        pa.field("product_id", pa.int64(), nullable=False),
        pa.field("quantity", pa.int32(), nullable=False),
        pa.field("amount", pa.decimal128(12, 2)),
    ]
)
QUOTE_SCHEMA = pa.schema(
    [
        pa.field("t", pa.int64(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("broker_id", pa.int32(), nullable=False),
        pa.field("price", pa.decimal128(10, 2), nullable=False),
        pa.field("volume", pa.decimal128(12, 2), nullable=False),
    ]
)
OP_FIELD = pa.field("op", pa.string(), nullable=False)


# --- A table that remembers what was done to it --------------------------------------------------

KeyT = TypeVar("KeyT")
RowT = TypeVar("RowT", bound=tuple[object, ...])


class ChangingTable(Generic[KeyT, RowT]):
    """The current rows of a table by key, and the changes made since the last `take_changes`.

    A key may stand for several identical rows (whole-row duplicates). Each key changes at most
    once a day, which makes the order of the rows in a change file irrelevant.
    """

    def __init__(self, schema: pa.Schema, key_of: Callable[[RowT], KeyT]) -> None:
        self._schema = schema
        self._key_of = key_of
        self._copies: dict[KeyT, list[RowT]] = {}
        self._changes: list[tuple[object, ...]] = []
        self._changed_keys: set[KeyT] = set()

    def __contains__(self, key: KeyT) -> bool:
        return key in self._copies

    def row(self, key: KeyT) -> RowT:
        return self._copies[key][0]

    def copies(self, row: RowT) -> int:
        return len(self._copies[self._key_of(row)])

    def rows(self) -> list[RowT]:
        """One row per key, in the order of insertion."""
        return [copies[0] for copies in self._copies.values()]

    def unchanged_rows(self) -> list[RowT]:
        """The rows that may still change today, one per key."""
        return [row for row in self.rows() if self._key_of(row) not in self._changed_keys]

    def insert(self, row: RowT, copies: int = 1) -> None:
        key = self._key_of(row)
        if key in self._copies:
            raise ValueError(f"key {key!r} exists already")
        self._mark_changed(key)
        self._copies[key] = [row] * copies
        self._changes += [("insert", *row)] * copies

    def update(self, row: RowT) -> None:
        key = self._key_of(row)
        if len(self._copies[key]) != 1:
            # It would be open whether one copy changes or all of them.
            raise ValueError(f"key {key!r} has several rows, an update of it is ambiguous")
        self._mark_changed(key)
        self._copies[key] = [row]
        self._changes.append(("update", *row))

    def delete(self, row: RowT) -> None:
        key = self._key_of(row)
        self._mark_changed(key)
        del self._copies[key]
        self._changes.append(("delete", *row))

    def snapshot(self) -> pa.Table:
        return columnar((row for copies in self._copies.values() for row in copies), self._schema)

    def take_changes(self) -> pa.Table:
        """The changes since the last call, which are forgotten: the next day starts with none."""
        changes = columnar(self._changes, pa.schema([OP_FIELD, *self._schema]))
        self._changes, self._changed_keys = [], set()
        return changes

    def _mark_changed(self, key: KeyT) -> None:
        if key in self._changed_keys:
            raise ValueError(f"key {key!r} has changed already today")
        self._changed_keys.add(key)


def columnar(rows: Iterable[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    materialized = list(rows)
    columns = [
        pa.array([row[position] for row in materialized], field.type)
        for position, field in enumerate(schema)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def cents(amount: int) -> Decimal:
    """Money is computed in whole cents, so that no float and no rounding mode is involved."""
    return Decimal(amount).scaleb(-2)


def happens(rng: Random, percent: int) -> bool:
    return rng.randrange(100) < percent


def day_date(day: int) -> date:
    return DAY_0 + timedelta(days=day)


# --- The shop ------------------------------------------------------------------------------------

GIVEN_NAMES = (
    "Anna", "Björn", "Chloé", "Đorđe", "Elif", "François", "Grażyna", "Håkon", "İpek", "José",
    "Katarína", "Łukasz", "Márta", "Niamh", "Øyvind", "Paul", "Renée", "Søren", "Tomáš", "Zoë",
)  # fmt: skip
FAMILY_NAMES = (
    "Andersson", "Brânză", "Castañeda", "Dvořák", "Eriksen", "Ferreira", "Gröning", "Hämäläinen",
    "Ibrahimović", "Jónsdóttir", "Kowalczyk", "Lefèvre", "Müller", "Nuñez", "O'Brien", "Þórsson",
    "Quaß", "Szabó", "Yüksel", "Živković", "Παπαδόπουλος", "Шевченко", "山田", "김",
)  # fmt: skip
REGIONS = ("Andalucía", "Bayern", "Île-de-France", "Małopolska", "Skåne", "Zürich")
SMALL_REGION = "Åland"  # has one customer, so its groups vanish and come back
SEGMENTS = ("business", "private", "public", "reseller")

# Category: number of products, lowest and highest price in cents, nouns for the titles.
CATALOGUE: dict[str | None, tuple[int, int, int, tuple[str, ...]]] = {
    "Electronics": (36, 1_499, 89_999, ("Headphones", "Monitor", "Keyboard", "Röhrenverstärker")),
    "Household": (36, 249, 19_999, ("Kettle", "Crêpe pan", "Lamp", "Smörgås tray")),
    "Books": (18, 399, 5_999, ("Atlas", "Cookbook", "Novel", "Čapek reader")),
    "Garden": (14, 199, 29_999, ("Spade", "Hose", "Bench", "Rosé trellis")),
    "Toys": (11, 99, 7_999, ("Puzzle", "Kite", "Blocks", "Piñata")),
    None: (5, 99, 9_999, ("Gift card", "Überraschungsbox")),
}
# Day 3 renames the two large categories: 72 of 120 products, a change so wide that computing a
# view over products anew costs less than maintaining it.
RENAMED_CATEGORIES = {"Electronics": "Devices", "Household": "Home & Living"}

DISCOUNTS_IN_CENTS = (0, 0, 0, 0, 250, 500, 725, 1_000, 1_250, 3_333)


class Shop:
    """The four tables of the shop and what may happen in them."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.customers = ChangingTable[int, Customer](CUSTOMER_SCHEMA, lambda row: row.id)
        self.products = ChangingTable[int, Product](PRODUCT_SCHEMA, lambda row: row.id)
        self.orders = ChangingTable[int, Order](ORDER_SCHEMA, lambda row: row.id)
        self.order_items = ChangingTable[tuple[int, int], OrderItem](
            ORDER_ITEM_SCHEMA, lambda row: (row.order_id, row.product_id)
        )
        self._last_customer_id = 0
        self._last_order_id = 0

    def add_customer(self, joined: date, region: str | None) -> None:
        self._last_customer_id += 1
        name = f"{self.rng.choice(GIVEN_NAMES)} {self.rng.choice(FAMILY_NAMES)}"
        segment = self.rng.choice(SEGMENTS)
        self.customers.insert(Customer(self._last_customer_id, name, region, segment, joined))

    def add_order(self, ordered_on: date, status: str) -> None:
        self._last_order_id += 1
        order = Order(
            self._last_order_id, self._any_customer_id(), status, ordered_on, self._any_discount()
        )
        self.orders.insert(order)
        for product in self.rng.sample(self._active_products(), self.rng.randint(1, 5)):
            self.add_item(order, product, copies=2 if happens(self.rng, 3) else 1)

    def add_item(self, order: Order, product: Product, copies: int = 1) -> None:
        quantity = self.rng.randint(1, 6)
        amount: Decimal | None = product.price * quantity
        kind = self.rng.randrange(100)
        if kind < 3:
            amount = None  # not invoiced yet
        elif kind < 5:
            amount = cents(0)  # a gift
        elif kind < 7:
            quantity, amount = -quantity, -product.price * quantity  # a credit note
        self.order_items.insert(OrderItem(order.id, product.id, quantity, amount), copies)

    def items_of(self, orders: Iterable[Order]) -> list[OrderItem]:
        order_ids = {order.id for order in orders}
        return [item for item in self.order_items.rows() if item.order_id in order_ids]

    def duplicated_items(self) -> list[OrderItem]:
        return [
            item for item in self.order_items.unchanged_rows() if self.order_items.copies(item) > 1
        ]

    def single_items(self) -> list[OrderItem]:
        """Items stored once, which an update can change without ambiguity."""
        return [
            item for item in self.order_items.unchanged_rows() if self.order_items.copies(item) == 1
        ]

    def invoiced_items(self) -> list[tuple[OrderItem, Decimal]]:
        """Of these, the ones that bring money, each with its amount."""
        return [
            (item, item.amount)
            for item in self.single_items()
            if item.amount is not None and item.amount > 0
        ]

    def orders_with_status(self, status: str) -> list[Order]:
        return [order for order in self.orders.unchanged_rows() if order.status == status]

    def change_status(self, old: str, new: str, count: int) -> list[Order]:
        changed = self.rng.sample(self.orders_with_status(old), count)
        for order in changed:
            self.orders.update(order._replace(status=new))
        return changed

    def change_amount(self, item: OrderItem, amount: Decimal | None) -> None:
        self.order_items.update(item._replace(amount=amount))

    def products_by_price(self, category: str) -> list[Product]:
        """The active products of a category that may still change today, cheapest first."""
        products = [
            product
            for product in self.products.unchanged_rows()
            if product.category == category and product.active
        ]
        return sorted(products, key=lambda product: (product.price, product.id))

    def day_files(self, day: int) -> dict[str, pa.Table]:
        changes = {
            "customers": self.customers.take_changes(),
            "products": self.products.take_changes(),
            "orders": self.orders.take_changes(),
            "order_items": self.order_items.take_changes(),
        }
        return named_files("shop", day, changes)

    def initial_files(self) -> dict[str, pa.Table]:
        self.day_files(0)  # the inserts that built the initial state are not changes of a day
        snapshots = {
            "customers": self.customers.snapshot(),
            "products": self.products.snapshot(),
            "orders": self.orders.snapshot(),
            "order_items": self.order_items.snapshot(),
        }
        return named_files("shop", 0, snapshots)

    def _any_customer_id(self) -> int | None:
        if happens(self.rng, 3):
            return None  # an order without an account
        # The smaller of two draws favours low ids: a few customers order much, some nothing.
        last = self._last_customer_id
        return min(self.rng.randint(1, last), self.rng.randint(1, last))

    def _any_discount(self) -> Decimal | None:
        return None if happens(self.rng, 5) else cents(self.rng.choice(DISCOUNTS_IN_CENTS))

    def _active_products(self) -> list[Product]:
        return [product for product in self.products.rows() if product.active]


def add_initial_customers(shop: Shop) -> None:
    for number in range(600):
        region = None if happens(shop.rng, 4) else shop.rng.choice(REGIONS)
        # A low number, because customers with low ids order most: the group has revenue.
        region = SMALL_REGION if number == 5 else region
        shop.add_customer(date(2018, 1, 1) + timedelta(days=shop.rng.randrange(2_190)), region)


def add_initial_products(shop: Shop) -> None:
    categories = [category for category, entry in CATALOGUE.items() for _ in range(entry[0])]
    shop.rng.shuffle(categories)
    for product_id, category in enumerate(categories, start=1):
        _, lowest, highest, nouns = CATALOGUE[category]
        # The smaller of two draws: most things are cheap.
        price = min(shop.rng.randint(lowest, highest), shop.rng.randint(lowest, highest))
        title = f"{shop.rng.choice(nouns)} No. {product_id}"
        active = not happens(shop.rng, 6)
        shop.products.insert(Product(product_id, title, category, cents(price), active))


def add_initial_orders(shop: Shop) -> None:
    days = (DAY_0 - FIRST_ORDER_DATE).days
    # Sorted, because order ids grow with time.
    ages = sorted((shop.rng.randint(0, days) for _ in range(3_000)), reverse=True)
    for age in ages:
        weights = (50, 30, 20, 0) if age < 30 else (2, 8, 84, 6)
        status = shop.rng.choices(("open", "paid", "shipped", "returned"), weights)[0]
        shop.add_order(DAY_0 - timedelta(days=age), status)


def usual_shop_day(shop: Shop) -> None:
    """Day 1: new customers and orders, orders move on, some corrections. Products stay."""
    shop.change_status("paid", "shipped", 15)
    shop.change_status("open", "paid", 20)
    correct_amounts(shop)
    add_items_to_open_orders(shop)
    move_customers(shop)
    shop.add_customer(day_date(1), "Zürich")
    shop.add_customer(day_date(1), None)
    for _ in range(30):
        shop.add_order(day_date(1), "paid" if happens(shop.rng, 30) else "open")


def correct_amounts(shop: Shop) -> None:
    """Wrong amounts corrected, one withdrawn (becomes NULL), missing ones filled in."""
    *wrong, (withdrawn, _) = shop.rng.sample(shop.invoiced_items(), 5)
    for item, amount in wrong:
        shop.change_amount(item, amount + cents(shop.rng.randint(1, 999)))
    missing = [item for item in shop.single_items() if item.amount is None]
    shop.change_amount(withdrawn, None)  # after the search, which must not find it
    for item in shop.rng.sample(missing, 2):
        shop.change_amount(item, shop.products.row(item.product_id).price * item.quantity)


def add_items_to_open_orders(shop: Shop) -> None:
    for number, order in enumerate(shop.rng.sample(shop.orders_with_status("open"), 4)):
        addable = [
            product
            for product in shop.products.rows()
            if product.active and (order.id, product.id) not in shop.order_items
        ]
        # Two identical rows at least once, whatever the seed.
        shop.add_item(order, shop.rng.choice(addable), copies=2 if number == 0 else 1)


def move_customers(shop: Shop) -> None:
    """To NULL, from NULL, between regions, and the only one of the small region leaves it."""
    customers = shop.customers.rows()
    elsewhere = [customer for customer in customers if customer.region == "Bayern"]
    nowhere = [customer for customer in customers if customer.region is None]
    [islander] = [customer for customer in customers if customer.region == SMALL_REGION]
    to_nowhere, to_other = shop.rng.sample(elsewhere, 2)
    shop.customers.update(to_nowhere._replace(region=None))
    shop.customers.update(to_other._replace(region="Andalucía"))
    shop.customers.update(shop.rng.choice(nowhere)._replace(region="Małopolska"))
    shop.customers.update(islander._replace(region="Skåne"))


def returns_and_deletes_shop_day(shop: Shop) -> None:
    """Day 2: nothing new; goods come back, orders are deleted, prices corrected."""
    credit_returned_orders(shop)
    delete_orders(shop)
    correct_products(shop)
    # Two updates that change nothing. The first is all that happens to customers this day: the
    # table has a new version, and no view over it may change.
    shop.customers.update(shop.rng.choice(shop.customers.rows()))
    shop.orders.update(shop.rng.choice(shop.orders_with_status("shipped")))


def credit_returned_orders(shop: Shop) -> None:
    returned = shop.change_status("shipped", "returned", 15)
    returned_ids = {order.id for order in returned}
    creditable = [pair for pair in shop.invoiced_items() if pair[0].order_id in returned_ids]
    for item, amount in shop.rng.sample(creditable, 6):
        shop.change_amount(item, -amount)


def delete_orders(shop: Shop) -> None:
    """Open and other orders go with all their items; one further order loses a single item.

    Both include an item that is stored twice, where one delete row removes two rows.
    """
    with_duplicates = {item.order_id for item in shop.duplicated_items()}
    # Not the orders returned today: they and their credited items have changed already.
    candidates = shop.orders.unchanged_rows()
    duplicated = [order for order in candidates if order.id in with_duplicates]
    plain = [order for order in candidates if order.id not in with_duplicates]
    still_open = [order for order in plain if order.status == "open"]
    closed = [order for order in plain if order.status != "open"]
    doomed = [
        *shop.rng.sample(duplicated, 3),
        *shop.rng.sample(still_open, 4),
        *shop.rng.sample(closed, 16),
    ]
    for item in shop.items_of(doomed):
        shop.order_items.delete(item)
    for order in doomed:
        shop.orders.delete(order)
    shop.order_items.delete(shop.rng.choice(shop.duplicated_items()))


def correct_products(shop: Shop) -> None:
    """The extremes of some categories change, where a minimum or maximum has to be found anew."""
    dearest_in_garden = shop.products_by_price("Garden")[-1]
    dearest_book = shop.products_by_price("Books")[-1]
    cheapest_in_household = shop.products_by_price("Household")[0]
    shop.products.update(dearest_in_garden._replace(active=False))
    shop.products.update(dearest_book._replace(price=cents(1_295)))
    shop.products.update(cheapest_in_household._replace(price=cents(4_950)))
    for product in shop.rng.sample(shop.products_by_price("Electronics")[1:-1], 3):
        shop.products.update(product._replace(price=product.price + cents(105)))


def reclassification_shop_day(shop: Shop) -> None:
    """Day 3: little happens, except that most products get a new category."""
    for product in shop.products.rows():
        if product.category in RENAMED_CATEGORIES:
            renamed = RENAMED_CATEGORIES[product.category]
            shop.products.update(product._replace(category=renamed))
    shop.change_status("open", "paid", 4)
    waived, _ = shop.rng.choice(shop.invoiced_items())
    shop.change_amount(waived, cents(0))
    married = shop.rng.choice(shop.customers.rows())
    shop.customers.update(married._replace(name=f"{married.name}-Strauß"))
    shop.add_customer(day_date(3), SMALL_REGION)
    for _ in range(5):
        shop.add_order(day_date(3), "open")


def shop_files() -> dict[str, pa.Table]:
    shop = Shop(Random(SHOP_SEED))
    add_initial_customers(shop)
    add_initial_products(shop)
    add_initial_orders(shop)
    files = shop.initial_files()
    shop_days = (usual_shop_day, returns_and_deletes_shop_day, reclassification_shop_day)
    for day, happenings in enumerate(shop_days, start=1):
        happenings(shop)
        files |= shop.day_files(day)
    return files


# --- The order book ------------------------------------------------------------------------------

OPENING_MILLIS = 1_743_408_000_000  # 2025-03-31 08:00 UTC
MILLIS_PER_DAY = 86_400_000
MIDDLE_PRICE = 10_000  # in cents
BROKERS = 12
RARE_BROKER = 13  # has a single bid, which day 2 deletes: a group that vanishes

Quotes = ChangingTable[int, Quote]


class Book:
    """Bids and asks. Their ids come from one sequence, as do their times."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.bids = Quotes(QUOTE_SCHEMA, lambda row: row.id)
        self.asks = Quotes(QUOTE_SCHEMA, lambda row: row.id)
        self._last_id = 0
        self._clock = OPENING_MILLIS

    def open_day(self, day: int) -> None:
        self._clock = OPENING_MILLIS + day * MILLIS_PER_DAY

    def add(self, side: Quotes, broker_id: int | None = None) -> None:
        self._last_id += 1
        self._clock += self.rng.randint(1, 9_000)
        # The smaller of two draws: most quotes are near the middle.
        distance = min(self.rng.randint(1, 1_500), self.rng.randint(1, 1_500))
        price = MIDDLE_PRICE + (distance if side is self.asks else -distance)
        broker = broker_id or self.rng.randint(1, BROKERS)
        volume = cents(self.rng.randint(100, 500_000))
        side.insert(Quote(self._clock, self._last_id, broker, cents(price), volume))

    def any_of(self, side: Quotes, count: int) -> list[Quote]:
        return self.rng.sample(side.unchanged_rows(), count)

    def cancel(self, side: Quotes, count: int) -> None:
        for quote in self.any_of(side, count):
            side.delete(quote)

    def fill_partly(self, side: Quotes, count: int) -> None:
        for quote in self.any_of(side, count):
            percent_left = self.rng.randint(10, 90)
            volume = cents(int(quote.volume * percent_left))
            side.update(quote._replace(volume=volume))

    def correct_prices(self, side: Quotes, count: int) -> None:
        for quote in self.any_of(side, count):
            side.update(quote._replace(price=quote.price + cents(self.rng.choice((-1, 1)))))

    def day_files(self, day: int) -> dict[str, pa.Table]:
        changes = {"bids": self.bids.take_changes(), "asks": self.asks.take_changes()}
        return named_files("book", day, changes)

    def initial_files(self) -> dict[str, pa.Table]:
        self.day_files(0)  # the inserts that built the initial state are not changes of a day
        snapshots = {"bids": self.bids.snapshot(), "asks": self.asks.snapshot()}
        return named_files("book", 0, snapshots)


def add_initial_quotes(book: Book) -> None:
    book.add(book.bids, broker_id=RARE_BROKER)
    for _ in range(2_000):
        book.add(book.bids)
        book.add(book.asks)


def usual_book_day(book: Book) -> None:
    """Day 1: quotes come, go and are partly filled; one is filled to a volume of zero."""
    for side in (book.bids, book.asks):
        book.cancel(side, 15)
        book.fill_partly(side, 10)
        for _ in range(20):
            book.add(side)
    [filled] = book.any_of(book.asks, 1)
    book.asks.update(filled._replace(volume=cents(0)))


def cancelling_book_day(book: Book) -> None:
    """Day 2: nothing new; quotes are cancelled, prices corrected, one update changes nothing."""
    of_rare_broker = [quote for quote in book.bids.rows() if quote.broker_id == RARE_BROKER]
    for quote in of_rare_broker:
        book.bids.delete(quote)
    for side in (book.bids, book.asks):
        book.cancel(side, 80)
        book.correct_prices(side, 12)
    [untouched] = book.any_of(book.bids, 1)
    book.bids.update(untouched)


def burst_book_day(book: Book) -> None:
    """Day 3: a burst of bids, while no ask moves."""
    book.cancel(book.bids, 250)
    book.fill_partly(book.bids, 400)
    for _ in range(900):
        book.add(book.bids)


def book_files() -> dict[str, pa.Table]:
    book = Book(Random(BOOK_SEED))
    add_initial_quotes(book)
    files = book.initial_files()
    book_days = (usual_book_day, cancelling_book_day, burst_book_day)
    for day, happenings in enumerate(book_days, start=1):
        book.open_day(day)
        happenings(book)
        files |= book.day_files(day)
    return files


# --- Files ---------------------------------------------------------------------------------------


def named_files(data_set: str, day: int, contents: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Relative path to content; a table without changes gets no file."""
    return {
        f"{data_set}/day{day}/{name}.parquet": content
        for name, content in contents.items()
        if content.num_rows
    }


def tables() -> dict[str, pa.Table]:
    """Every file's content by its path relative to this folder, such as
    'shop/day0/orders.parquet'."""
    return shop_files() | book_files()


def write_files(root: Path) -> None:
    contents = tables()
    for stale in existing_paths(root) - contents.keys():
        (root / stale).unlink()
    for path, content in contents.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        # Everything that shapes the bytes is stated, so that a changed default of pyarrow does
        # not rewrite the files. Snappy, because every Parquet reader has it.
        pq.write_table(
            content,
            root / path,
            version="2.6",
            data_page_version="1.0",
            compression="snappy",
            use_dictionary=True,
            row_group_size=1 << 20,
        )


def differences(root: Path) -> list[str]:
    """What sets the files below `root` apart from the generated tables, one line per file."""
    contents = tables()
    existing = existing_paths(root)
    found = [f"{path}: not generated" for path in sorted(existing - contents.keys())]
    for path, content in contents.items():
        if path not in existing:
            found.append(f"{path}: missing")
        elif not pq.read_table(root / path, partitioning=None).equals(content):
            found.append(f"{path}: other content")
    return found


def existing_paths(root: Path) -> set[str]:
    return {
        path.relative_to(root).as_posix()
        for data_set in ("shop", "book")
        for path in (root / data_set).glob("day*/*.parquet")
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the sample data, or check it.")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 on differences")
    if not parser.parse_args(arguments).check:
        write_files(HERE)
        return 0
    found = differences(HERE)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
