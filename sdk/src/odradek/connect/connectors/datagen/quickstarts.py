"""The well-known shapes: their fields, types and keys are those of Confluent's Datagen, the values our own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from odradek.connect.connectors.datagen.shape import Shape

_Avro = Any
_2021_MS, _2022_MS = 1_609_459_200_000, 1_640_995_200_000
_DAYS = {"min": 18_000, "max": 19_000}


def _of(type_name: str, **properties: Any) -> _Avro:
    return {"type": type_name, "arg.properties": properties} if properties else type_name


def _int(low: float, high: float) -> _Avro:
    return _of("int", range={"min": low, "max": high})


def _long(low: float, high: float) -> _Avro:
    return _of("long", range={"min": low, "max": high})


def _double(low: float, high: float) -> _Avro:
    return _of("double", range={"min": low, "max": high})


def _count(type_name: str, start: int = 0, step: int = 1, **more: Any) -> _Avro:
    return _of(type_name, iteration={"start": start, "step": step}, **more)


def _one(*options: Any, type_name: str = "string") -> _Avro:
    return _of(type_name, options=list(options))


def _like(pattern: str) -> _Avro:
    return _of("string", regex=pattern)


def _logical(type_name: str, of: str, **properties: Any) -> _Avro:
    return {"type": type_name, "logicalType": of, "arg.properties": properties}


def _record(name: str, _options: list[dict[str, Any]] | None = None, /, **fields: _Avro) -> _Avro:
    annotations = {} if _options is None else {"arg.properties": {"options": _options}}
    made = [{"name": field_name, "type": field_type} for field_name, field_type in fields.items()]
    return {"type": "record", "name": f"ksql.{name}", "fields": made, **annotations}


_MOMENTS = _logical("long", "timestamp-millis", iteration={"start": _2021_MS, "step": 100_000})
_IP = _like("10[.][1-9][0-9][.][1-9][0-9][.][1-9]")
_FIRST = ("Ada", "Emmy", "Grace", "Katherine", "Lise", "Maryam", "Rosalind", "Sofia", "Alan", "Blaise", "Carl", "Niels")
_LAST = ("Adler", "Baumann", "Costa", "Dubois", "Egli", "Fontana", "Graf", "Huber", "Ito", "Jensen", "Keller", "Lopez")
_NAME = _one(*(f"{first} {last}" for first, last in zip(_FIRST, _LAST, strict=True)))
_PEOPLE = [(first, last) for last in _LAST for first in _FIRST[:6]]
_SHOE = _of("string", regex="shoe-[1-9][0-9]?")
_SHOE_CUSTOMER = _of("string", regex="customer-[1-9][0-9]?")
_SELLERS = {"store_id": _int(1, 10)}


def _users(name: str, **more: _Avro) -> _Avro:
    return _record(
        name,
        registertime=_long(1_487_715_775_521, 1_519_273_364_600),
        userid=_like("User_[1-9]"),
        regionid=_like("Region_[1-9]"),
        gender=_one("MALE", "FEMALE", "OTHER"),
        **more,
    )


def _clickstream() -> _Avro:
    return _record(
        "clickstream",
        ip=_like("122[.][1-9][.]245[.][1-9][0-9]"),
        userid=_int(1, 40),
        remote_user=_one("-"),
        time=_count("string", 1, 10),
        _time=_count("long", 1, 10),
        request=_one("GET /index.html HTTP/1.1", "GET /site/login.html HTTP/1.1", "GET /images/logo.png HTTP/1.1"),
        status=_one("200", "302", "404", "405", "406", "407"),
        bytes=_one("278", "1289", "2048", "4096", "4006", "4196", "14096"),
        referrer=_one("-"),
        agent=_one("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (Macintosh)", "curl/8.5.0"),
    )


def _orders() -> _Avro:
    address = _record(
        "address", city=_like("City_[1-9]{0,2}"), state=_like("State_[1-9]{0,2}"), zipcode=_long(10_000, 99_999)
    )
    return _record(
        "orders",
        ordertime=_long(1_487_715_775_521, 1_519_273_364_600),
        orderid=_count("int"),
        itemid=_like("Item_[1-9][0-9]{0,2}"),
        orderunits=_double(0.1, 10.0),
        address=address,
    )


def _pizza_orders() -> _Avro:
    menu = [("salad", 4.5), ("wrap", 7.25), ("pizza", 13.0), ("calzone", 14.5), ("dessert", 6.0)]
    lines = [
        {"product_id": number, "category": name, "quantity": count, "unit_price": price, "net_price": count * price}
        for number, (name, price) in enumerate(menu, 1)
        for count in range(1, 5)
    ]
    line = _record(
        "order_line", lines, product_id="int", category="string", quantity="int", unit_price="double",
        net_price="double",
    )  # fmt: skip
    several = {"type": "array", "items": line, "arg.properties": {"length": {"min": 1, "max": 6}}}
    return _record(
        "pizza_orders",
        **_SELLERS,
        store_order_id=_count("int", 1_000),
        coupon_code=_int(1_000, 2_000),
        date=_logical("int", "date", range=_DAYS),
        status=_one("accepted"),
        order_lines=several,
    )


def _pizza(name: str, start: int, status: str, **more: _Avro) -> _Avro:
    return _record(
        name,
        **_SELLERS,
        store_order_id=_count("int", start, 2),
        date=_logical("int", "date", range=_DAYS),
        status=_one(status),
        **more,
    )


def _person(number: int) -> dict[str, Any]:
    first, last = _PEOPLE[number % len(_PEOPLE)]
    return {"first_name": first, "last_name": last, "email": f"{first}.{last}.{number}@example.org".lower()}


def _insurance_customers() -> _Avro:
    people = [
        {
            "customer_id": number,
            **_person(number),
            "gender": ("Female", "Male")[number % 2],
            "income": 30_000 + number * 1_733 % 90_000,
            "fico": 400 + number * 37 % 450,
            "years_active": number % 12,
        }
        for number in range(1, 151)
    ]
    return _record(
        "insurance_customers", people, customer_id="int", first_name="string", last_name="string", email="string",
        gender="string", income="int", fico="int", years_active="int",
    )  # fmt: skip


def _payroll_employee() -> _Avro:
    people = [
        {
            "employee_id": 1_000 + number,
            **_person(number),
            "age": 20 + number * 7 % 45,
            "ssn": f"{number % 900:03d}-{number % 90 + 10}-{number * 31 % 9_000 + 1_000}",
            "hourly_rate": 15 + number % 40,
            "gender": ("F", "M")[number % 2],
        }
        for number in range(100)
    ]
    return _record(
        "payroll_employee", people, employee_id="int", first_name="string", last_name="string", age="int",
        ssn="string", hourly_rate="int", gender="string", email="string",
    )  # fmt: skip


def _shoe_customers() -> _Avro:
    people = [
        {
            "id": f"customer-{number}",
            **_person(number),
            "phone": f"555-{number:04d}",
            "street_address": f"{number} Main Street",
            "state": ("Texas", "Ohio", "Oregon", "Maine")[number % 4],
            "zip_code": f"{10_000 + number * 83}",
            "country": "United States",
            "country_code": "US",
        }
        for number in range(1, 100)
    ]
    return _record(
        "shoe_customers", people, id="string", first_name="string", last_name="string", email="string",
        phone="string", street_address="string", state="string", zip_code="string", country="string",
        country_code="string",
    )  # fmt: skip


def _shoes() -> _Avro:
    kinds = ("Trail", "Road", "Court", "Hiker", "Slipper")
    made = [
        {
            "id": f"shoe-{number}",
            "brand": ("Alpenlauf", "Fellwerk", "Sohlenhaus")[number % 3],
            "name": f"{kinds[number % len(kinds)]} {number}",
            "sale_price": 4_000 + number * 97 % 12_000,
            "rating": number % 50 / 10,
        }
        for number in range(1, 100)
    ]
    return _record(
        "shoe_product", made, id="string", brand="string", name="string", sale_price="int", rating="double"
    )  # fmt: skip


def _siem_logs() -> _Avro:
    def endpoint(name: str) -> _Avro:
        return _record(name, ip=_IP, port=_int(10_000, 65_536))

    return _record(
        "siem_logs",
        hostname=_like("host-[1-9][0-9]?"),
        action=_one("Deny", "Permit"),
        l4=_one("tcp"),
        access_group=_one("inside", "outside", "dmz", "guest", "lab"),
        source=endpoint("source"),
        destination=endpoint("destination"),
    )


def _syslog_logs() -> _Avro:
    return _record(
        "syslog_logs",
        name=_like("[a-zA-Z]{5,8}"),
        type=_one("RFC3164", "RFC5424", "CEF", "UNKNOWN"),
        message=_like("[a-z ]{10,15}"),
        host=_IP,
        version=_one("1"),
        tag=_one("app"),
        level=_int(0, 191),
        facility=_one("kern", "user", "daemon"),
        severity=_int(0, 8),
        appName=_like("[A-Z]{5,8}"),
        remoteAddress=_IP,
        rawMessage=_like("[a-z ]{10,15}"),
        processId=_like("[1-9][0-9]{6}"),
        messageId=_like("[1-9][0-9]{2}"),
        deviceVendor=_like("[a-z]{5}"),
        deviceProduct=_like("[a-z]{5}"),
        deviceVersion=_one("1.0", "1.1", "2.0", "2.5", "3.0"),
        ts=_count("long", _2021_MS, 100),
    )


_CODES = ((200, "Successful"), (302, "Redirect"), (404, "Page not found"), (405, "Method not allowed"),
          (406, "Not acceptable"), (407, "Proxy authentication required"))  # fmt: skip
_CITIES = (("Raleigh", "NC"), ("Palo Alto", "CA"), ("Austin", "TX"), ("Portland", "OR"), ("Boston", "MA"),
           ("Denver", "CO"), ("Chicago", "IL"))  # fmt: skip

QUICKSTARTS: Mapping[str, tuple[str, Callable[[], _Avro]]] = {
    "orders": ("orderid", _orders),
    "users": ("userid", lambda: _users("users")),
    "users_": (
        "userid",
        lambda: _users(
            "users_",
            interests={
                "type": {
                    "type": "array",
                    "items": "string",
                    "arg.properties": {"options": [["News", "Movies"], ["Sport"], ["Games", "News"], ["Travel"]]},
                }
            },
            contactinfo={
                "type": "map",
                "values": "string",
                "arg.properties": {
                    "options": [
                        {"phone": f"555-010{number}", "city": city, "state": state, "zipcode": f"{10_000 + number}"}
                        for number, (city, state) in enumerate(_CITIES)
                    ]
                },
            },
        ),
    ),
    "pageviews": (
        "viewtime",
        lambda: _record(
            "pageviews",
            viewtime=_count("long", 1, 10),
            userid=_like("User_[1-9]"),
            pageid=_like("Page_[1-9][0-9]"),
        ),
    ),
    "ratings": (
        "rating_id",
        lambda: _record(
            "ratings",
            rating_id=_count("long", 1),
            user_id=_int(1, 20),
            stars=_int(1, 6),
            route_id=_int(1, 9_999),
            rating_time=_count("long", 1, 12),
            channel=_one("web", "ios", "android", "iOS-test", "ios"),
            message=_one("thank you", "why is it so difficult?", "more peanuts please", "airport food", "great crew"),
        ),
    ),
    "stock_trades": (
        "symbol",
        lambda: _record(
            "stock_trades",
            side=_one("BUY", "SELL"),
            quantity=_int(1, 5_000),
            symbol=_one("ZBZX", "ZJZZT", "ZTEST", "ZVV", "ZVZZT", "ZWZZT", "ZXZZT"),
            price=_int(5, 1_000),
            account=_one("ABC123", "LMN456", "XYZ789"),
            userid=_like("User_[1-9]"),
        ),
    ),
    "inventory": (
        "id",
        lambda: _record("inventory", id=_count("long"), quantity=_count("long"), productid=_count("long")),
    ),
    "product": (
        "id",
        lambda: _record(
            "product",
            id=_count("long"),
            name=_count("string", prefix="product "),
            description=_count("string", prefix="description of product "),
            price=_count("double"),
        ),
    ),
    "purchases": (
        "id",
        lambda: _record(
            "purchases",
            id=_count("long"),
            item_type=_one("grains", "fruit", "vegetables", "dairy", "meat", "fish", "bakery", "drinks"),
            quantity=_long(1, 10),
            price_per_unit={
                "type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2,
                "arg.properties": {"range": {"min": 10.0, "max": 50.0}},
            },
        ),
    ),
    "transactions": (
        "transaction_id",
        lambda: _record(
            "transactions",
            transaction_id=_count("long", 1),
            card_id=_long(1, 24),
            user_id=_like("User_[1-9]?"),
            purchase_id=_count("long"),
            store_id=_int(1, 7),
        ),
    ),
    "stores": (
        "store_id",
        lambda: _record(
            "stores",
            [{"store_id": at, "city": city, "state": state} for at, (city, state) in enumerate(_CITIES, 1)],
            store_id="int", city="string", state="string",
        ),
    ),
    "credit_cards": (
        "card_id",
        lambda: _record(
            "credit_cards",
            [
                {"card_id": at, "card_number": 4_000_000_000_000_000 + at * 7_919, "cvv": 100 + at * 37,
                 "expiration_date": f"{at % 12 + 1:02d}/{28 + at % 4}"}
                for at in range(1, 25)
            ],
            card_id="int", card_number="long", cvv="int", expiration_date="string",
        ),
    ),
    "campaign_finance": (
        "candidate_id",
        lambda: _record(
            "campaign_finance",
            time=_long(1_587_715_775_521, 1_619_273_364_600),
            candidate_id=_like("[A-Z][1-9]{8}"),
            party_affiliation=_one("DEM", "REP", "IND"),
            contribution=_int(20, 3_500),
        ),
    ),
    "clickstream": ("ip", _clickstream),
    "clickstream_codes": (
        "code",
        lambda: _record(
            "clickstream_codes", [{"code": code, "definition": said} for code, said in _CODES], code="int",
            definition="string",
        ),
    ),
    "clickstream_users": (
        "user_id",
        lambda: _record(
            "clickstream_users",
            user_id=_count("int", 1),
            username=_like("[a-z]{4,8}_[1-9][0-9]"),
            registered_at=_long(1_407_645_330_000, 1_502_339_792_000),
            first_name=_one(*_FIRST),
            last_name=_one(*_LAST),
            city=_one(*(city for city, _ in _CITIES)),
            level=_one("Gold", "Silver", "Platinum"),
        ),
    ),
    "fleet_mgmt_description": (
        "vehicle_id",
        lambda: _record(
            "fleet_mgmt_description",
            vehicle_id=_int(1_000, 9_999), driver_name=_NAME, license_plate=_like("[A-Z]{2}[0-9]{6}[A-Z]"),
        ),
    ),
    "fleet_mgmt_location": (
        "vehicle_id",
        lambda: _record(
            "fleet_mgmt_location",
            vehicle_id=_int(1_000, 9_999),
            location=_record("location", latitude=_double(45.8, 47.8), longitude=_double(6.0, 10.5)),
            ts=_MOMENTS,
        ),
    ),
    "fleet_mgmt_sensors": (
        "vehicle_id",
        lambda: _record(
            "fleet_mgmt_sensors",
            vehicle_id=_int(1_000, 9_999), engine_temperature=_int(150, 250), average_rpm=_int(1_800, 5_000),
        ),
    ),
    "pizza_orders": ("store_id", _pizza_orders),
    "pizza_orders_completed": (
        "store_id",
        lambda: _pizza(
            "pizza_orders_completed", 1_000, "completed", rack_time_secs=_int(130, 230),
            order_delivery_time_secs=_int(1_100, 2_000),
        ),
    ),
    "pizza_orders_cancelled": ("store_id", lambda: _pizza("pizza_orders_cancelled", 1_001, "cancelled")),
    "insurance_offers": (
        "offer_id",
        lambda: _record(
            "insurance_offers",
            [
                {"offer_id": at, "offer_name": name, "offer_url": f"https://www.example.org/offers/{at}"}
                for at, name in enumerate(("household", "bicycle", "travel", "life", "legal", "car"), 1)
            ],
            offer_id="int", offer_name="string", offer_url="string",
        ),
    ),
    "insurance_customers": ("customer_id", _insurance_customers),
    "insurance_customer_activity": (
        "activity_id",
        lambda: _record(
            "insurance_customer_activity",
            activity_id=_count("int", 1),
            customer_id=_int(1, 151),
            activity_type=_one("web_open", "mobile_open", "new_account"),
            propensity_to_churn=_double(0.01, 1),
            ip_address=_IP,
        ),
    ),
    "gaming_games": (
        "id",
        lambda: _record(
            "gaming_games",
            id=_int(1_000, 5_000),
            room_name=_one("Arena", "Castle", "Desert", "Forest", "Harbour", "Island", "Labyrinth", "Moon", "Tower"),
            created_date=_MOMENTS,
        ),
    ),
    "gaming_players": (
        "player_id",
        lambda: _record(
            "gaming_players",
            [
                {"player_id": 1_000 + at, "player_name": _PEOPLE[at % len(_PEOPLE)][0], "ip": f"10.1.{at}.7"}
                for at in range(1, 101)
            ],
            player_id="int", player_name="string", ip="string",
        ),
    ),
    "gaming_player_activity": (
        "player_id",
        lambda: _record(
            "gaming_player_activity",
            player_id=_int(1_001, 1_101),
            game_room_id=_int(1_000, 5_000),
            points=_int(10, 500),
            coordinates=_like(r"\[[0-9][0-9],[0-9][0-9]\]"),
        ),
    ),
    "payroll_employee": ("employee_id", _payroll_employee),
    "payroll_employee_location": (
        "employee_id",
        lambda: _record(
            "payroll_employee_location",
            employee_id=_int(1_000, 1_100),
            lab=_like("lab-[0-9]"),
            department_id=_int(1, 10),
            arrival_date=_logical("int", "date", range=_DAYS),
        ),
    ),
    "payroll_bonus": (
        "employee_id",
        lambda: _record(
            "payroll_bonus",
            employee_id=_int(1_000, 1_100),
            bonus=_int(10, 50),
            ts=_logical("long", "timestamp-millis", range={"min": _2021_MS, "max": _2022_MS}),
        ),
    ),
    "syslog_logs": ("host", _syslog_logs),
    "device_information": (
        "device_ip",
        lambda: _record(
            "device_information",
            device_ip=_IP, mac_address=_like("02(:[0-9a-f]{2}){5}"), owner=_NAME,
        ),
    ),
    "siem_logs": ("hostname", _siem_logs),
    "shoes": ("id", _shoes),
    "shoe_customers": ("id", _shoe_customers),
    "shoe_orders": (
        "order_id",
        lambda: _record(
            "shoe_orders",
            order_id=_count("int", 1_000), product_id=_SHOE, customer_id=_SHOE_CUSTOMER, ts=_MOMENTS,
        ),
    ),
    "shoe_clickstream": (
        "product_id",
        lambda: _record(
            "shoe_clickstream",
            product_id=_SHOE,
            user_id=_SHOE_CUSTOMER,
            view_time=_int(10, 120),
            page_url=_like("https://www[.]example[.]org/product/[a-z]{5}"),
            ip=_IP,
            ts=_logical("long", "timestamp-millis", iteration={"start": _2021_MS, "step": 10_000}),
        ),
    ),
    "iot": (
        "device",
        lambda: _record(
            "iot",
            device=_like("device-[1-9]"),
            temperature=_double(0, 40),
            tags={
                "type": "array", "items": _like("room-[1-5]"), "arg.properties": {"length": {"min": 1, "max": 3}},
            },
            measured=_logical("long", "timestamp-millis", now=True),
        ),
    ),
}  # fmt: skip
"""Key and Avro schema of each."""


@cache
def quickstart(name: str) -> Shape:
    """Return a well-known shape; KeyError for another name."""
    key, avro = QUICKSTARTS[name]
    return Shape(avro(), key)
