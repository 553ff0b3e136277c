"""Hashes of blocks as vLLM 0.32.0 makes them, on CPython 3.11: hash_block_tokens of
vllm.v1.core.kv_cache_utils after init_none_hash, for every algorithm and two seeds.

tokens of TOKENS, with each of EXTRAS, behind none; and those of MORE, with none, behind that
block. SHORT: the first 1, 2, 3 and 4 of TOKENS.
"""

from __future__ import annotations

from typing import Any, NamedTuple

TOKENS = [0, 1, 23, 24, 255, 256, 65535, 65536, 49151, 7, 2**31 - 1, 128, 1000, 70000, 255, 254]
MORE = list(range(100, 228))

EXTRAS: list[tuple[Any, ...] | None] = [
    None,
    (("lora", "sql", "/a/sql"),),
    (("mm", "img" * 10, -3), ("mm", "x" * 300, 12)),
    (("lora", "a", "a"), ("mm", "éß", 70000), ("mm", "b", -70000), ("cache_salt", "s")),
]


class Hashes(NamedTuple):
    form: str
    seed: str
    none: str
    blocks: list[tuple[str, str]]
    short: list[str]


HASHES = [
    Hashes(
        "sha256",
        "vllm-none-hash",
        "066b1e8987e027138e98701c46128929378935f9b6cd1549105ae6b4f0d71198",
        [
            (
                "0e720269bca06542ec88d960be6156d875c937fb9762df60935046515082c3c2",
                "9e3f2776cc8b91d0fdcf1b474f3c81acda396fc876c9dd6052068c3580e389c3",
            ),
            (
                "765f57cafc08fe591f236a62010d62c71e74919f2475bc06b0099c0389ef9a21",
                "0fc14e4d65d2dac7983a9c7cd347986153f1316c801fc03afdc47ec293164aaf",
            ),
            (
                "20a828c97107e77de2e9ea164b17c129f3eeb34080702de1bded5f47f899dda9",
                "d85c6effbff9fdc622f796c2cef7500e2848aabca163a93f60ed8208ac92f402",
            ),
            (
                "c7e7d1d87e8a4c2c60a70930b877daaea02b26dec3028ece42c5ab6acaa217b2",
                "dac70b0745c5b7d46e52194c4403921d0bc13cb885801aed0b517b5ad6a4a382",
            ),
        ],
        [
            "1876a790824e1c62cc68ce0472a1542ccc7bf2d1d5c9e53827fc516bb9f88601",
            "66db7535153fbbe3e336f2586c6246706bd213d5680ce68709abac0acabe3d24",
            "588c1268ece56d895e2730c39f59ae5f370f7ea121e4fdaa9569c7bca0ea6a00",
            "11f5243899c2fa6144f8486261cc7a2e4b040f391cde28ec9d8c990b3cfc4b64",
        ],
    ),
    Hashes(
        "sha256",
        "0",
        "1973e23848344dc43a988a9b478663803cfffe1243480253f9a3cf004b14aa7c",
        [
            (
                "dbc44371a31e2c8b697d855d4399384c1712b7b0a80c6f58006418df49ba204d",
                "97d8af6f06d809b65171deca17fe0a39a68ca3506eb084cc3da8753062e99216",
            ),
            (
                "da91dbb22a2e351fa55e6d0d6f43005cd127bea79453fc2b8fe6d276d21db394",
                "e7e66233686af9248719aab017a9642363645b5a2756a041f6ccadf581c97ee9",
            ),
            (
                "fcc23b31c9607e96acaa7ecc5a96a59fda404c22772f9bd94f5597beb2c36ee6",
                "9d28af5dccd29dd82574cc0d1b762187c51ab2f81b1db86e4ca6df73159e9de0",
            ),
            (
                "172cc5b3e657c84fcd6837a05cab9fcca0fab4f55156e23e5d8a327647bf9961",
                "b80a2ab286f1f0149ea3251f35a0329c5b21bb193bc55a5b949863da3cf4f8fa",
            ),
        ],
        [
            "8a8ca157f153d0ded68e06e9dc141ac01badc8be407579fc7088ec5e2e2126f6",
            "2e23ebb229d606592a8f447428181e15fc7133cc7a46717796b152f075a864e7",
            "6da4bdb8ed5fe422845f21ed79e5aed978ea838e40d67ae2dc109ef072207dd9",
            "14ef663348dab6e7911cd2fdef0d41d94970240a724a998656e03c1f4e2f1721",
        ],
    ),
    Hashes(
        "sha256_cbor",
        "vllm-none-hash",
        "9bd96a485ad84efdafb72ee48a1d7a69bcead0f8f0433173941b276b9581eef0",
        [
            (
                "b145234a81629d2ec2ba17a9243551f4ae8c865e9ae4914dc88a880a8931ceb0",
                "3c34232fddf94a166f0d4380958dd8107ac251766fee9ef68bb3f4e3fcbbda1a",
            ),
            (
                "3bc04174a939c66af9a58707b5ae641511ca10a4782e1828b2b5fecebc1b8d85",
                "5e3b41aac657cb416d22b47717f7c0474cac237284acbcb5967254d2ef86f455",
            ),
            (
                "42536dacb2a6ecda23e52226f77cc2ed19511d57239f9ad75c8e763b492b16e1",
                "aa0f42892b888698541fc66a1ff2a98ba58e0d1022caf5d8230934ce330cbd3f",
            ),
            (
                "36233fca074d0f40b2079548b22de4d49f9ab9df2dec2d75f307a83259e42fcd",
                "b09bf8931a100b6889959d55fb1f46b1b1203c29d00b6ec77f14c7aa07134495",
            ),
        ],
        [
            "493f37dcda994a276ed9f9f27341b870a0da995cb22a36dc0e43fbf55d0cd662",
            "9e4fcb919c9ac73859efa3883ea6dc08de80652cdde02379a5cb1d6f62230cfe",
            "a8419a131ade760fe7db6f193dd8ea7b0d898acd29aa35ab89176221482e24ac",
            "9e85762a91def2a8c95633b296ff858a1304ca43d1c6d5cf5ac75c989d90ee6c",
        ],
    ),
    Hashes(
        "sha256_cbor",
        "0",
        "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e",
        [
            (
                "371a5cbff994ae65481b2416cb521b9f3a564d1fea6fd50a3151b2faf0f4c805",
                "f7a8ff3a7be6045f9cbc4c5456d3b74dc9d5b1f3fd69fd97767b7a6924d61e60",
            ),
            (
                "8fc37bba8660095a41f9a1d7ddfc47014c4452db22071accbf474e66e6a3fa37",
                "0533500957f4bbbb9890b326aeb56cf3fad59a1f558c5c91e943511d0785a7d6",
            ),
            (
                "b9bea9333a4f3550a5f008c5437ebf26a51c2dd02415b4d548c5c1e4ddf62877",
                "26bc84863a4f9a8106312359eee2d1e6d6008712d563be04252b8eff27b90b60",
            ),
            (
                "90f88883691ab40e7c494428173b9dcdedb0a3b07232ed801fc9699e1af530f8",
                "9194f17c27771228e3392a78545fcf9655eb4721a929a4048e777acf7aac26a6",
            ),
        ],
        [
            "089cbc4133d486069e9c2a18d642db7e46dd33742ba375954e5abb8bf05c6e79",
            "8e6aef451c8273ab625287bfc595427354a10c5f26c9d683ff002983b1a880e4",
            "9f780fd9c4b4e5349f74616ff9ff83d267a7f21d9f5ac7d0a808021ff4e33cb7",
            "2c9bae251e8c16e19ba70869529e4e41cdc9419aa0b696a7622e80e7e6c5fe9f",
        ],
    ),
    Hashes(
        "xxhash",
        "vllm-none-hash",
        "d98f72b9c430d985211489af307f0229",
        [
            ("19f6e1f20241750e772c28d6893e054b", "a18e8360ec9499dfb132478279a2806c"),
            ("9546836a7b5fb018e9e5d9ea1932bb3f", "a11c85db80ee2fae0d341d5aaa75b31b"),
            ("4ba1591d83af25dbaa485c19a8f22bf4", "9566d409ad666bfb24b348b45c2c00be"),
            ("44490a9c74a52d1f29e46b975e6b5ab0", "6023caac0677a36e4a15ad93cd340d43"),
        ],
        [
            "1b1e2e5067c6a6a3dabfa492e67c15ae",
            "2a3a7978a8e04a00f8b34af175e236f8",
            "9991b7377304862e43ea9d519c0b1922",
            "dd766973adceead451d07f031671a858",
        ],
    ),
    Hashes(
        "xxhash",
        "0",
        "6fb31cc38bba6066183f7f2104b9c051",
        [
            ("26041c1ab1f3068b433fb282d889b991", "e2795df7f9cdd618b091089c3558b2ea"),
            ("5a0d970f1171a19b2532e4f15ff24872", "79a3e0a97016dda3edfc8885f94324e3"),
            ("913e26dd165a88fde15b61c665413f64", "a670a02b1d502ef9677b8257118a024c"),
            ("031e78f4f47abb559845463418679219", "178bf13a90bcf28f0583faf656df52f5"),
        ],
        [
            "362dbd30f1df8ea222027e68bb458f34",
            "bb0d91849bd105fc52bdf037384486e0",
            "79b9f75c707f1b5f5cf82a66e225d557",
            "4b4754aa1481ef3ad8ea6380c2ec09d8",
        ],
    ),
    Hashes(
        "xxhash_cbor",
        "vllm-none-hash",
        "a4e364baa0791a6f63bbf917db9b700d",
        [
            ("6c0cae991a75ede80e5c1c9d8e27a50f", "48201c3610e44b3f5e1c554bd6915d42"),
            ("b154437e74feb45cecf1d97d0279d5cc", "de2dde098081a0f0f28cc7131514d0f1"),
            ("e563b671064b9114a70077e78db672ee", "00a3c3ce753b7777177ab9f795abb6c5"),
            ("a1ca798590e8763ab6eb9639e0ec6a59", "e68f185aa677db22c49383fb71cdfcbf"),
        ],
        [
            "197fcf77cb6928b5f0d4a9c9d7b707f7",
            "416a787b6dc2f684b1b08bf95ba6fb98",
            "2bb77ff72101872e2f4084008dc94281",
            "ee711f1cfd1317787f157cb43042ac6b",
        ],
    ),
    Hashes(
        "xxhash_cbor",
        "0",
        "1ebe36576dcb573f26b99533a20aaeca",
        [
            ("f0c8174602244bc6ab9d33530ebc9603", "5e9a008a6d44593c13feba770708299f"),
            ("09171d03b10159efa4f28353ff6d60d7", "b301e27295184457565fbde2bc83152b"),
            ("b4832709a21c97c4df7bd38ebfd2a419", "331d080824714927aa6c9ee9e5bdac9a"),
            ("caab527fc7ba7df1d8325aaeb3ba94dd", "2d107214f67491d73346bbe2d90ce2ba"),
        ],
        [
            "606a5b0fa80400fd2dc5805b83a0bee3",
            "99620ae5a3c22658a0003026f13f43c8",
            "75ff0f858510b21b5b0fc060160b2035",
            "0faa06aa5d5064de698b1dbeedfcd536",
        ],
    ),
]
